#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: many mappings live side by side and go again, used and unused ones, and
# leave neither devices nor references to the module behind.
# Needs: root, dmsetup, fio, null_blk. Endangers: nothing but devices of its own.
# CPUs: 2

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

SECTORS=2048
ROUNDS=$(full_or_quick 30 10)

# References to the module and threads of mappings, as far as there are any. A workqueue has a
# thread of its name, which newer kernels begin otherwise and may cut short.
kept() {
	echo "references: $(cat /sys/module/dm_crypt/refcnt 2>/dev/null) threads:" \
		"$(cat /proc/[0-9]*/comm 2>/dev/null | grep -cE '^(kworker/R-)?kcryp|^dmcrypt_write')"
}

remove_all() {
	local name

	for name in $(dmsetup ls | grep -o "^$PREFIX-many-[0-9]*"); do
		dmsetup remove --retry "$name"
	done
}

# come_and_go CIPHER MANY: in all modes in turn, each on a piece of the disk.
come_and_go() {
	local before i files="" number key cipher many=$2

	cipher=$(cipher "$1")
	before=$(kept)
	null_disk many 128 irqmode=2 completion_nsec=10000
	defer remove_all
	mark_log
	key=$(key 64)
	for ((i = 0; i < many; i++)); do
		set -- "$cipher" ${FLAGS[${MODES[i % 4]}]}
		number=$(($# - 1))
		dmsetup create "$PREFIX-many-$i" --table \
			"0 $SECTORS crypt $1 $key 0 $DISK $((i * SECTORS)) $number ${*:2}" ||
			broken "dmsetup create failed"
		files+=${files:+:}/dev/mapper/$PREFIX-many-$i
	done
	verified_io many "$files" --rw=randwrite --bs=8k --iodepth=32 \
		--io_size=$((many * 64))K --size=$((many))M
	remove_all
	want "mappings left" "" "$(dmsetup ls | grep "^$PREFIX-many-")"
	want "what is kept" "$before" "$(kept)"
	no_complaints
}

# Created and removed before anybody used them, over and over.
never_used() {
	local round before

	before=$(kept)
	null_disk unused 16 irqmode=1
	for ((round = 0; round < ROUNDS; round++)); do
		map_flags unused "$1" 64 both || return 0
		undo_last
		no_complaints
	done
	want "what is kept" "$before" "$(kept)"
}

needs fio null_blk modes async

CLAIMS=("come_and_go aes-xts-plain64 100" "come_and_go async-xts 25" "never_used aes-xts-plain64")
quick_claims "come_and_go async-xts 25" \
	"never_used aes-xts-plain64"
run_claims
