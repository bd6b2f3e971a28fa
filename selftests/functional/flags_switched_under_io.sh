#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a reload of the table switches the flags during I/O without an error or wrong data"
#
# Requires: root, dmsetup, fio, null_blk.
# Risks: none.
# CPUs: 2

. "$(dirname "$0")/common.sh"

# switch_flags NUMBER: as an administrator would, with I/O in flight.
switch_flags() {
	local name=${MAPPED##*/} flags=${FLAGS[${MODES[$1 % 4]}]}

	dmsetup load "$name" --table "$(crypt_table "$CIPHER" $flags)" &&
		dmsetup suspend "$name" && dmsetup resume "$name"
	want "status of switching to: $flags" 0 $?
	want "flags after that" "$flags" "$(arguments_of "$name")"
}

# every_switch_keeps_data IRQMODE CIPHER: two rounds through all modes, or more.
every_switch_keeps_data() {
	local CIPHER=$2

	null_disk size=64 "irqmode=$1" completion_nsec=20000
	crypt switched "$CIPHER"
	during_io 8 "$(full_or_quick 60 0)" switch_flags --bsrange=4k-64k "--size=$(full_or_quick 24 4)M" \
		--verify_backlog=64 --rate_iops=100
}

requires fio modes async

CASES=("every_switch_keeps_data 1 aes-xts-plain64"
	"every_switch_keeps_data 2 aes-xts-plain64"
	"every_switch_keeps_data 2 async-xts")
quick_cases "every_switch_keeps_data 2 aes-xts-plain64" "every_switch_keeps_data 2 async-xts"
run
