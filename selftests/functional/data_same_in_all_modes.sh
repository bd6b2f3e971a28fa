#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: what one mode writes, every mode reads, and what lies on the disk does
# not depend on the mode: for each cipher, IV generator and sector size, on disks
# that complete in the submitter, in softirq and in hard interrupt context.
# Needs: root, dmsetup, null_blk. Endangers: nothing but devices of its own.
# CPUs: 1

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"
. "$here/regions.sh"

# Equal data with equal IVs are equal on the disk: each region against the next.
stored_alike() {
	local dd="dd if=$1 bs=$WRITE count=$((3 * COUNT)) iflag=direct status=none"

	want "difference between regions as stored" "" \
		"$($dd 2>&1 | cmp - <($dd skip=$COUNT) 2>&1)"
}

# same_data CIPHER SECTOR_BYTES DISK
same_data() {
	local arguments=()

	[ "$2" = 512 ] || arguments=("sector_size:$2" iv_large_sectors)
	map_regions "${DISKS[$3]}" "$1" "${KEY_BYTES[$1]}" "${arguments[@]}" || return 0
	written_in_each_read_in_all
	stored_alike "${DISKS[$3]}"
	no_complaints
}

needs cmp null_blk modes async

declare -A KEY_BYTES=(
	[capi:ecb-cipher_null-plain64]=0
	[aes-xts-plain64]=64
	[aes-cbc-essiv:sha256]=32
	[aes-cbc-eboiv]=32
	[aes-cbc-elephant]=64
	[aes:64-cbc-lmk]=1040
	[aes-cbc-tcw]=64
	[async-xts]=64
)

declare -A DISKS
null_disk task 8 irqmode=0
DISKS[task]=$DISK
null_disk softirq 8 irqmode=1
DISKS[softirq]=$DISK
null_disk hardirq 8 irqmode=2 completion_nsec=10000
DISKS[hardirq]=$DISK

CLAIMS=()
for disk in "${!DISKS[@]}"; do
	for cipher in "${!KEY_BYTES[@]}"; do
		# One context is enough for the rarer ones where time is short.
		[ -z "$DM_CRYPT_QUICK" ] || [ "$disk-$cipher" = task-aes-xts-plain64 ] ||
			[ "$disk" = hardirq ] || continue
		CLAIMS+=("same_data $cipher 512 $disk")
		# The context and the sector size do not know of each other.
		case $disk-$cipher in
		task-* | softirq-*) ;;
		*-lmk | *-tcw) ;; # know no other sector size
		*) CLAIMS+=("same_data $cipher 4096 $disk") ;;
		esac
	done
done
run_claims
