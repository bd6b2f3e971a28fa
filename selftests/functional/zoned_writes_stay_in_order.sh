#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="sequential writes to the zones of a zoned disk reach each zone in their order"
#
# Many at a time, also where the cipher completes asynchronously and the disk has few tags. None
# fails, and they can be read.
# Requires: root, dmsetup, fio, null_blk with CONFIG_BLK_DEV_ZONED, a dm-crypt that takes zoned disks.
# Risks: none.
# CPUs: 2

. "$(dirname "$0")/common.sh"

ZONES=8 ZONE_MIB=4

# in_order MODE CIPHER: 4 writers of 2 zones each, 2 tags.
in_order() {
	null_disk size=$((ZONES * ZONE_MIB)) completion_nsec=100000 \
		hw_queue_depth=2 zoned=1 "zone_size=$ZONE_MIB" zone_nr_conv=0
	crypt zoned "$2" ${FLAGS[$1]}
	verified_io zoned "$MAPPED" --zonemode=zbd --rw=write --bs=16k --iodepth=16 \
		--numjobs=4 "--size=$((ZONES * ZONE_MIB / 4))M" \
		"--offset_increment=$((ZONES * ZONE_MIB / 4))M"
}

requires fio modes async
(deferred=() && on_exit_undo && null_disk size=$ZONE_MIB zoned=1 zone_size=$ZONE_MIB zone_nr_conv=0 &&
	ZEROES=$DEVICE takes aes-xts-plain64) >/dev/null 2>&1 ||
	skip "needs CONFIG_BLK_DEV_ZONED, and a dm-crypt that takes zoned disks"

for mode in "${MODES[@]}"; do
	CASES+=("in_order $mode aes-xts-plain64" "in_order $mode async-xts")
done
quick_cases "in_order both async-xts"
run
