#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: sequential writes to the zones of a zoned disk, many at a time, reach each
# zone in the order in which they were issued, also where the cipher completes
# asynchronously and the disk has few tags: none fails, and they read back.
# Needs: root, dmsetup, fio, null_blk with CONFIG_BLK_DEV_ZONED, a dm-crypt that takes
# zoned disks. Endangers: nothing but devices of its own.
# CPUs: 2

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

ZONES=8 ZONE_MIB=4

# in_order MODE CIPHER: 4 writers of 2 zones each, 2 tags. Zoned disks get
# no_write_workqueue unasked, so the flags are not compared.
in_order() {
	null_disk zoned $((ZONES * ZONE_MIB)) irqmode=2 completion_nsec=100000 \
		hw_queue_depth=2 zoned=1 "zone_size=$ZONE_MIB" zone_nr_conv=0
	# The flags are words.
	map zoned "$(crypt_table "$DISK" "$2" "$(key 64)" ${FLAGS[$1]})" || return 0
	verified_io zoned "$MAPPED" --zonemode=zbd --rw=write --bs=16k --iodepth=16 \
		--numjobs=4 "--size=$((ZONES * ZONE_MIB / 4))M" \
		"--offset_increment=$((ZONES * ZONE_MIB / 4))M"
	no_complaints
}

needs fio null_blk modes async
REFUSED="skip_all needs CONFIG_BLK_DEV_ZONED:" \
	null_disk probe $ZONE_MIB zoned=1 zone_size=$ZONE_MIB zone_nr_conv=0 2>/dev/null
dmsetup create "$PREFIX-probe" --table "$(crypt_table "$DISK" aes-xts-plain64 "$(key 64)")" \
	2>/dev/null || skip_all "dm-crypt takes no zoned disks"
defer dmsetup remove --retry "$PREFIX-probe"

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("in_order $mode aes-xts-plain64" "in_order $mode async-xts")
done
quick_claims "in_order both async-xts"
run_claims
