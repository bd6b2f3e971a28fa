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

# switch_flags NUMBER: as an administrator would, with I/O in flight.
switch_flags() {
	local name=$PREFIX-switched flags=${FLAGS[${MODES[$1 % 4]}]}

	dmsetup load "$name" --table "$(crypt_table "$DISK" "$CIPHER" "$KEY" $flags)" &&
		dmsetup suspend "$name" && dmsetup resume "$name"
	want "status of switching to: $flags" 0 $?
	want "flags after that" "$flags" "$(arguments_of "$name")"
}

# every_switch_keeps_data IRQMODE CIPHER: two rounds through all modes, or more.
every_switch_keeps_data() {
	local CIPHER=$2 KEY

	KEY=$(key 64)
	null_disk switched 64 "irqmode=$1" completion_nsec=20000
	map_flags switched "$CIPHER" 64 default || return 0
	beside_io 8 "$SPAN" switch_flags --bsrange=4k-64k "--size=${MIB}M" --verify_backlog=64 \
		--rate_iops=100
	no_complaints
}

SPAN=$(full_or_quick 60 0) # seconds
MIB=$(full_or_quick 24 4) # of one run of the I/O

needs fio null_blk modes async

CLAIMS=("every_switch_keeps_data 1 aes-xts-plain64"
	"every_switch_keeps_data 2 aes-xts-plain64"
	"every_switch_keeps_data 2 async-xts")
quick_claims "every_switch_keeps_data 2 aes-xts-plain64" \
	"every_switch_keeps_data 2 async-xts"
run_claims
