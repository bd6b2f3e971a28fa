#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="many mappings, used or not, leave no device, thread or module reference behind"
#
# Requires: root, dmsetup, fio, null_blk.
# Risks: none.
# CPUs: 2

. "$(dirname "$0")/common.sh"

# kept: print the references to the module and the threads of mappings. A workqueue has a
# thread of its name, which newer kernels begin otherwise and may cut short.
kept() {
	echo "references: $(cat /sys/module/dm_crypt/refcnt 2>/dev/null) threads:" \
		"$(cat /proc/[0-9]*/comm 2>/dev/null | grep -cE '^(kworker/R-)?kcryp|^dmcrypt_write')"
}

# come_and_go CIPHER NUMBER: in all modes in turn, each on a piece of the disk.
come_and_go() {
	local before i files="" line

	before=$(kept)
	null_disk size=128 completion_nsec=10000
	for ((i = 0; i < $2; i++)); do
		read -r -a line <<<"$(crypt_table "$1" ${FLAGS[${MODES[i % 4]}]})"
		line[1]=2048 line[7]=$((i * 2048))
		dmsetup create "$NAME-many-$i" --table "${line[*]}" || broken "dmsetup create failed"
		defer dmsetup remove --retry "$NAME-many-$i"
		files+=${files:+:}/dev/mapper/$NAME-many-$i
	done
	verified_io many "$files" --rw=randwrite --bs=8k --iodepth=32 \
		--io_size=$(($2 * 64))K "--size=$2M"
	undo
	want "mappings that still exist" "" "$(dmsetup ls | grep "^$NAME-many-")"
	want "references and threads" "$before" "$(kept)"
}

# never_used CIPHER: created and removed before anybody used them, over and over.
never_used() {
	local round before

	before=$(kept)
	null_disk irqmode=1
	for ((round = 0; round < $(full_or_quick 30 10); round++)); do
		crypt unused "$1" ${FLAGS[both]}
		undo_last
	done
	want "references and threads" "$before" "$(kept)"
}

requires fio modes async

CASES=("come_and_go aes-xts-plain64 100" "come_and_go async-xts 25" "never_used aes-xts-plain64")
quick_cases "come_and_go async-xts 25" "never_used aes-xts-plain64"
run
