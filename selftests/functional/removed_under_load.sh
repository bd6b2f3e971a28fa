#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a mapping with inline modes can be removed while I/O is in flight, and
# the module unloaded right after; nothing of either is touched later.
# Needs: root, dmsetup, fio, null_blk; CONFIG_KASAN makes it certain. Unloading
# needs dm-crypt as a module that nobody else uses.
# Endangers: nothing but devices of its own; dm-crypt is unloaded for a moment.
# CPUs: 2
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

ROUNDS=$(full_or_quick 4 2)
JOBS=16

# Start reads and writes on the mapping and return when some have completed. Not
# by libaio: User-Mode Linux complains of itself when it frees the ring of a killed process.
start_load() {
	local stat reads writes

	stat=/sys/dev/block/$(numbers_of "$MAPPED")/stat
	fio --name=load --thread --filename="$MAPPED" --direct=1 --ioengine=psync \
		--rw=randrw --bs=16k --numjobs=$JOBS --size=16M --time_based --runtime=60 \
		--output=/dev/null 2>/dev/null &
	LOAD=$!
	reads=0 writes=0
	until [ "$reads" -gt 8 ] && [ "$writes" -gt 8 ]; do
		kill -0 $LOAD 2>/dev/null || broken "the load ended by itself"
		read -r reads _ _ _ writes _ <"$stat" || broken "no statistics of $MAPPED"
	done
}

# replaced_by_errors CIPHER: what a forced removal does; the load then sees errors.
replaced_by_errors() {
	local round

	for ((round = 0; round < ROUNDS; round++)); do
		map_flags forced "$1" 64 both || return 0
		start_load
		want "message of wipe_table" "" "$(dmsetup wipe_table "$PREFIX-forced" 2>&1)"
		wait $LOAD
		want "jobs of the load that failed after the removal" $JOBS $?
		undo_last
		no_complaints || return
	done
}

# killed_and_removed CIPHER: the last completions race with the removal, and of
# the mapping nothing is left.
killed_and_removed() {
	map_flags killed "$1" 64 both || return 0
	start_load
	kill -KILL $LOAD
	wait $LOAD 2>/dev/null
	undo_last
	want "mapping left behind" "" "$(dmsetup ls | grep -wF "$PREFIX-killed")"
	no_complaints
}

removed_again_and_again() {
	local round

	for ((round = 0; round < ROUNDS; round++)); do
		killed_and_removed "$1" || return
	done
}

module_unloaded_after_load() {
	local round

	if [ ! -e /sys/module/dm_crypt/refcnt ]; then
		skip "dm-crypt is built in"
		return
	elif [ "$(cat /sys/module/dm_crypt/refcnt)" -ne 0 ]; then
		skip "dm-crypt is in use"
		return
	fi
	for ((round = 0; round < ROUNDS; round++)); do
		killed_and_removed async-xts || return
		want "rmmod" "" "$(rmmod dm_crypt 2>&1)"
		no_complaints || return
		modprobe dm-crypt || broken "dm-crypt does not load again"
	done
}

needs fio null_blk modes async
null_disk loaded 32 irqmode=2 completion_nsec=20000

CLAIMS=("replaced_by_errors aes-xts-plain64" "replaced_by_errors async-xts"
	"removed_again_and_again aes-xts-plain64" "removed_again_and_again async-xts"
	module_unloaded_after_load)
run_claims
