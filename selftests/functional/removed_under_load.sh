#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a mapping can be removed during I/O, and the module unloaded right after that"
#
# Linux 5.9 to 6.7 freed a tasklet in its own completion (fixed by commit 0a9bab391e33).
# Requires: root, dmsetup, fio, null_blk; CONFIG_KASAN finds more. For one case dm-crypt must be a module
# that nobody else uses.
# Risks: dm-crypt is unloaded for a moment.
# CPUs: 2
# Guest: emulated

. "$(dirname "$0")/common.sh"

ROUNDS=$(full_or_quick 4 2)
JOBS=16

# start_load: start reads and writes on the mapping and wait for some of them. Not with libaio:
# User-Mode Linux warns when it frees the ring of a killed process.
start_load() {
	local stat reads writes

	stat=$(block_dir "$MAPPED")/stat
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

# replaced_by_errors CIPHER: a forced removal does this; the load then has errors.
replaced_by_errors() {
	local round

	for ((round = 0; round < ROUNDS; round++)); do
		crypt forced "$1" ${FLAGS[both]}
		start_load
		want "message of wipe_table" "" "$(dmsetup wipe_table "$MAPPED" 2>&1)"
		wait $LOAD
		want "jobs of the load that failed after the removal" $JOBS $?
		undo_last
	done
}

# removed_again_and_again CIPHER [COMMAND]: the last completions race with the removal, and with the command.
removed_again_and_again() {
	local round

	for ((round = 0; round < ROUNDS; round++)); do
		crypt killed "$1" ${FLAGS[both]}
		start_load
		kill -KILL $LOAD
		wait $LOAD 2>/dev/null
		undo_last
		want "mapping that still exists" "" "$(dmsetup ls | grep -wF "$NAME-killed")"
		${2:-:}
	done
}

reload_module() {
	want "rmmod" "" "$(rmmod dm_crypt 2>&1)"
	modprobe dm-crypt || broken "dm-crypt does not load again"
}

module_unloaded_after_load() {
	[ -e /sys/module/dm_crypt/refcnt ] || skip "dm-crypt is built in"
	[ "$(cat /sys/module/dm_crypt/refcnt)" -eq 0 ] || skip "dm-crypt is in use"
	removed_again_and_again async-xts reload_module
}

requires fio modes async
null_disk size=32 completion_nsec=20000

CASES=("replaced_by_errors aes-xts-plain64" "replaced_by_errors async-xts"
	"removed_again_and_again aes-xts-plain64" "removed_again_and_again async-xts"
	module_unloaded_after_load)
run
