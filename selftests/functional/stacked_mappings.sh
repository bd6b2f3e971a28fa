#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="inline mappings work below dm-linear and snapshots, and on top of each other"
#
# Requires: root, dmsetup, fio, null_blk; for one case dm-snapshot.
# Risks: none.

. "$(dirname "$0")/common.sh"

IO="--rw=randwrite --bsrange=4k-64k --iodepth=16 --size=$(full_or_quick 16 4)M"

# crypt_over_crypt UPPER_MODE/LOWER_MODE CIPHER IRQMODE
crypt_over_crypt() {
	null_disk size=64 "irqmode=$3" completion_nsec=10000
	crypt lower "$2" ${FLAGS[${1#*/}]}
	DEVICE=$MAPPED
	crypt upper "$2" ${FLAGS[${1%/*}]}
	verified_io stacked "$MAPPED" $IO
}

# linear_over_crypt MODE IRQMODE: the two halves in exchanged order.
linear_over_crypt() {
	local half

	null_disk size=64 "irqmode=$2" completion_nsec=10000
	crypt lower aes-xts-plain64 ${FLAGS[$1]}
	half=$(($(sectors_of "$MAPPED") / 2))
	device linear "0 $half linear $MAPPED $half
$half $half linear $MAPPED 0"
	verified_io linear "$DEVICE" $IO
}

# snapshot_of_crypt MODE: each first write reads and copies through the mapping.
snapshot_of_crypt() {
	local origin

	needs_target snapshot
	null_disk size=64 completion_nsec=10000
	crypt origin aes-xts-plain64 ${FLAGS[$1]}
	origin=$MAPPED
	null_disk size=64 irqmode=1
	crypt cow aes-xts-plain64 ${FLAGS[$1]}
	device snapshot "0 $(sectors_of "$origin") snapshot $origin $MAPPED N 16"
	verified_io snapshot "$DEVICE" $IO
}

requires fio modes async

for irqmode in 0 1 2; do
	CASES+=("crypt_over_crypt both/both aes-xts-plain64 $irqmode"
		"linear_over_crypt both $irqmode")
done
for mode in default no_read no_write; do
	CASES+=("crypt_over_crypt $mode/both aes-xts-plain64 2"
		"crypt_over_crypt both/$mode aes-xts-plain64 2")
done
CASES+=("crypt_over_crypt both/both async-xts 2"
	"snapshot_of_crypt both" "snapshot_of_crypt no_write")
quick_cases "crypt_over_crypt both/both aes-xts-plain64 1" \
	"linear_over_crypt both 2" \
	"snapshot_of_crypt both"
run
