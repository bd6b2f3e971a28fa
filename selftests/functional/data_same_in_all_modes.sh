#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="each mode reads what another one wrote, for all ciphers, sector sizes and tags"
#
# Equal data is stored alike in all modes. Reads of authenticated data are interrupted by a full
# crypto queue: Linux from 5.9 on then took the wrong tags (fixed by commit 8b8f80377657).
# Requires: root, dmsetup, null_blk, dm-integrity, cryptd; the queue is full when the kernel was booted
# with cryptd.cryptd_max_cpu_qlen=4.
# Risks: none.
# CPUs: 1

. "$(dirname "$0")/common.sh"

# A disk has a region for each mode. 44 KiB, the size of a write, is no power of two; a read is 3
# writes long, a region 6.
WRITE=44K READ=132K COUNT=6
REGION=$((44 * COUNT * 2))

# Keys that key_of does not know.
declare -A KEYS=(
	[aes:64-cbc-lmk]=$(printf '%02x' {1..255} {1..255} {1..255} {1..255} {1..20})
	[aes-cbc-tcw]=$(key_of xts)
	["capi:authenc(hmac(sha256),xts(aes))-random"]=$(key_of cbc)$(key_of xts)
)

# map_regions CIPHER [ARGUMENT]...: one mapping, first each region in the mode that writes it, then
# all regions in the first mode, in the second, and so on.
map_regions() {
	local DEVICE=$DEVICE KEY=${KEYS[$1]} table="" segment mode line

	needs_cipher "$@"
	for ((segment = 0; segment < 20; segment++)); do
		mode=${MODES[segment < 4 ? segment : segment / 4 - 1]}
		read -r -a line <<<"$(crypt_table "$1" ${FLAGS[$mode]} "${@:2}")"
		line[0]=$((segment * REGION)) line[1]=$REGION line[7]=$((segment % 4 * REGION))
		table+=${line[*]}$'\n'
	done
	device regions "${table%$'\n'}"
	MAPPED=$DEVICE
}

# written_in_each_read_in_all: new data, the same for each region.
written_in_each_read_in_all() {
	random_data $((REGION * 512))
	want "message of writing" "" "$(cat "$DATA"{,,,} |
		dd of="$MAPPED" bs=$WRITE iflag=fullblock oflag=direct status=none 2>&1)"
	want "difference, read in all modes (region written in: ${MODES[*]})" "" \
		"$(dd if="$MAPPED" bs=$READ skip=$((4 * COUNT / 3)) iflag=direct status=none 2>&1 |
			cmp - <(cat "$DATA"{,,,}{,,,}) 2>&1)"
}

# same_data CIPHER SECTOR_BYTES IRQMODE: equal data with equal IVs are equal on the disk: each region
# against the next.
same_data() {
	local arguments=() stored

	[ "$2" = 512 ] || arguments=("sector_size:$2" iv_large_sectors)
	null_disk size=8 "irqmode=$3" completion_nsec=10000
	map_regions "$1" "${arguments[@]}"
	written_in_each_read_in_all
	stored="dd if=$DEVICE bs=$WRITE count=$((3 * COUNT)) iflag=direct status=none"
	want "difference between regions as stored" "" "$($stored | cmp - <($stored skip=$COUNT) 2>&1)"
}

# same_authenticated_data CIPHER TAG_BYTES SECTOR_BYTES
same_authenticated_data() {
	local arguments=("integrity:$2:aead")

	[ "$3" = 512 ] || arguments+=("sector_size:$3")
	null_disk completion_nsec=10000
	tags_over "$2" "$3"
	map_regions "$1" "${arguments[@]}"
	written_in_each_read_in_all
}

requires cmp target:integrity modes async

quick=()
for cipher in null aes-xts-plain64 aes-cbc-essiv:sha256 aes-cbc-eboiv aes-cbc-elephant aes:64-cbc-lmk \
	aes-cbc-tcw async-xts; do
	CASES+=("same_data $cipher 512 0" "same_data $cipher 512 1")
	quick+=("same_data $cipher 512 2")
	# The context and the sector size do not know of each other; two ciphers know no other size.
	case $cipher in *-lmk | *-tcw) ;; *) quick+=("same_data $cipher 4096 2") ;; esac
done
CASES+=("${quick[@]}")
for sector in 512 4096; do
	CASES+=("same_authenticated_data capi:gcm(aes)-random 28 $sector"
		"same_authenticated_data capi:authenc(hmac(sha256),xts(aes))-random 48 $sector"
		"same_authenticated_data async-gcm 28 $sector")
done
quick_cases "${quick[@]}" "same_data aes-xts-plain64 512 0" \
	"same_authenticated_data capi:gcm(aes)-random 28 4096" \
	"same_authenticated_data async-gcm 28 512"
run
