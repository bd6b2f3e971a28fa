#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="each mode reads what another one wrote, with requests of 512 bytes to 1 MiB"
#
# The requests are direct and buffered, of parallel jobs, on a mapping that begins at an odd sector
# of the disk and counts its sectors from an offset.
# Requires: root, dmsetup, fio, null_blk.
# Risks: none.
# CPUs: 2

. "$(dirname "$0")/common.sh"

START=7 IV_OFFSET=123456789
# Requests of all orders of magnitude, most of them small: some 200 in 12 MiB. In
# their order: fio's random map would cut the large ones at what it has written.
SIZES=512/30:1536/20:4k/20:20k/15:256k/10:1m/5

# odd_map MODE CIPHER
odd_map() {
	local DEVICE=$DEVICE line

	read -r -a line <<<"$(crypt_table "$2" ${FLAGS[$1]})"
	line[1]=$((line[1] - 2 * START)) line[5]=$IV_OFFSET line[7]=$START
	device sizes "${line[*]}"
	MAPPED=$DEVICE
}

# write_then_read WRITER READER CIPHER DIRECT IRQMODE: the second run repeats the
# sequence of the first, and only reads.
write_then_read() {
	local run io="--rw=write --bssplit=$SIZES --randrepeat=1 --direct=$4
		--numjobs=3 --offset_increment=10M --size=4M --iodepth=16"

	null_disk size=33 "irqmode=$5" completion_nsec=10000
	for run in "$1 --do_verify=0" "$2 --verify_only"; do
		odd_map ${run%% *} "$3"
		verified_io "${run%% *}" "$MAPPED" $io ${run#* }
		undo_last
	done
}

requires fio modes async

for writer in "${MODES[@]}"; do
	for reader in "${MODES[@]}"; do
		[ "$writer" = "$reader" ] ||
			CASES+=("write_then_read $writer $reader aes-xts-plain64 1 2")
	done
done
for irqmode in 0 1 2; do
	CASES+=("write_then_read both default aes-xts-plain64 0 $irqmode"
		"write_then_read default both aes-xts-plain64 0 $irqmode"
		"write_then_read no_read both async-xts 1 $irqmode")
done
quick_cases "write_then_read no_write no_read aes-xts-plain64 1 2" \
	"write_then_read both default aes-xts-plain64 0 1"
run
