#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: what one mode writes another one reads, for requests of 512 bytes to
# 1 MiB, direct and buffered, by parallel jobs, on a mapping that begins at an odd
# sector of the disk and counts its sectors from an offset.
# Needs: root, dmsetup, fio, null_blk. Endangers: nothing but devices of its own.
# CPUs: 2

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

START=7 IV_OFFSET=123456789
# Requests of all orders of magnitude, most of them small: some 200 in 12 MiB. In
# their order: fio's random map would cut the large ones at what it has written.
SIZES=512/30:1536/20:4k/20:20k/15:256k/10:1m/5

# odd_map MODE CIPHER
odd_map() {
	local sectors

	sectors=$(($(sectors_of "$DISK") - 2 * START))
	set -- "$(cipher "$2")" ${FLAGS[$1]}
	map sizes "0 $sectors crypt $1 $(key 64) $IV_OFFSET $DISK $START $(($# - 1)) ${*:2}"
}

# write_then_read WRITER READER CIPHER DIRECT IRQMODE: the second run repeats the
# sequence of the first, and only reads.
write_then_read() {
	local run io="--rw=write --bssplit=$SIZES --randrepeat=1 --direct=$4
		--numjobs=3 --offset_increment=10M --size=4M --iodepth=16"

	null_disk sizes 33 "irqmode=$5" completion_nsec=10000
	for run in "$1 --do_verify=0" "$2 --verify_only"; do
		odd_map ${run%% *} "$3" || return 0
		verified_io "${run%% *}" "$MAPPED" $io ${run#* }
		no_complaints
		undo_last
	done
}

needs fio null_blk modes async

CLAIMS=()
for writer in "${MODES[@]}"; do
	for reader in "${MODES[@]}"; do
		[ "$writer" = "$reader" ] ||
			CLAIMS+=("write_then_read $writer $reader aes-xts-plain64 1 2")
	done
done
for irqmode in 0 1 2; do
	CLAIMS+=("write_then_read both default aes-xts-plain64 0 $irqmode"
		"write_then_read default both aes-xts-plain64 0 $irqmode"
		"write_then_read no_read both async-xts 1 $irqmode")
done
quick_claims "write_then_read no_write no_read aes-xts-plain64 1 2" \
	"write_then_read both default aes-xts-plain64 0 1"
run_claims
