#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: the flags can be switched by reloading the table while I/O runs: no
# error, no wrong data, and each table says what was loaded.
# Needs: root, dmsetup, fio, null_blk. Endangers: nothing but devices of its own.
# CPUs: 2

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# switch_to NAME MODE: as an administrator would, with I/O in flight.
switch_to() {
	dmsetup load "$1" --table "$(crypt_table "$DISK" "$CIPHER" "$KEY" ${FLAGS[$2]})" &&
		dmsetup suspend "$1" && dmsetup resume "$1"
	want "status of switching to $2" 0 $?
	want "flags after switching to $2" "${FLAGS[$2]}" "$(arguments_of "$1")"
}

# every_switch_keeps_data IRQMODE CIPHER: I/O that checks what it wrote while it goes
# on writing, in as many runs as two rounds through all modes, and $SPAN, take.
every_switch_keeps_data() {
	local CIPHER=$2 KEY switches=0 beside=none before load end=$((SECONDS + SPAN))

	KEY=$(key 64)
	null_disk switched 64 "irqmode=$1" completion_nsec=20000
	map_flags switched "$CIPHER" 64 default || return 0
	while [ $switches -lt 8 ] || [ $SECONDS -lt $end ]; do
		verified_io switched "$MAPPED" --rw=randwrite --bsrange=4k-64k --iodepth=16 \
			--size=${MIB}M --verify_backlog=64 --rate_iops=100 &
		load=$!
		begun "$MAPPED" $load
		while kill -0 $load 2>/dev/null; do
			before=$(completed "$MAPPED")
			switch_to "$PREFIX-switched" "${MODES[switches % 4]}" || break
			switches=$((switches + 1))
			[ "$(completed "$MAPPED")" -eq "$before" ] || beside=some
		done
		wait $load
		want "status of the verified I/O" 0 $?
		[ -z "$ktap_verdict" ] || break
	done
	want "switches beside I/O" some $beside
	no_complaints
}

SPAN=$(full_or_quick 60 0) # seconds
MIB=$(full_or_quick 24 4) # of one run of the I/O

needs fio null_blk flags async

CLAIMS=("every_switch_keeps_data 1 aes-xts-plain64"
	"every_switch_keeps_data 2 aes-xts-plain64"
	"every_switch_keeps_data 2 $ASYNC_XTS")
quick_claims "every_switch_keeps_data 2 aes-xts-plain64" \
	"every_switch_keeps_data 2 $ASYNC_XTS"
run_claims
