#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="each read counts once and has its data or an error, with other devices below or above the mapping"
#
# Inline mappings work below dm-linear and snapshots, on top of each other, and on devices that split requests.
# Requires: root, dmsetup, fio, null_blk; for some cases the block trace events, dm-snapshot, scsi_debug.
# Risks: one case loads scsi_debug and removes it.

. "$(dirname "$0")/common.sh"

COUNT=$(full_or_quick 64 16)
IO="--rw=randwrite --bsrange=4k-128k --iodepth=16 --size=$(full_or_quick 16 4)M"

# data_stays MODE [CIPHER]: the data of a mapping of $DEVICE.
data_stays() {
	crypt upper "${2:-aes-xts-plain64}" ${FLAGS[$1]}
	verified_io upper "$MAPPED" $IO
}

# stat_of DEVICE: print the reads and the sectors that it completed.
stat_of() { awk '{ print $1, $3 }' "$(block_dir "$1")/stat"; }

# events EVENT DEVICE: print the number of these trace events for reads of the device.
events() { grep -c "block_bio_$1: $(numbers_of "$2" | tr : ,) R" "$INSTANCE/trace"; }

# counted_once MODE IRQMODE
counted_once() {
	local before after

	needs_events block/block_bio_queue block/block_bio_complete
	null_disk size=64 "irqmode=$2"
	crypt once aes-xts-plain64 ${FLAGS[$1]}
	! command -v udevadm >/dev/null || udevadm settle
	before="$(stat_of "$DEVICE") $(stat_of "$MAPPED")"
	traced dd if="$MAPPED" of=/dev/null bs=4k skip=1024 count="$COUNT" iflag=direct status=none
	want "status of dd" 0 $?
	after="$(stat_of "$DEVICE") $(stat_of "$MAPPED")"
	want "reads and sectors of disk and mapping" "$COUNT $((COUNT * 8)) $COUNT $((COUNT * 8))" \
		"$(paste <(xargs -n 1 <<<"$before") <(xargs -n 1 <<<"$after") | awk '{ print $2 - $1 }' | xargs)"
	want "queue events of the mapping" "$COUNT" "$(events queue "$MAPPED")"
	want "queue events of the disk" "$COUNT" "$(events queue "$DEVICE")"
	want "complete events of the mapping" "$COUNT" "$(events complete "$MAPPED")"
	no_requests_in_flight "$MAPPED"
}

# split_by_disk MODE IRQMODE: into parts of 4 KiB, or of a page where Linux takes no less.
split_by_disk() {
	null_disk size=64 "irqmode=$2" completion_nsec=10000
	echo 4 2>/dev/null >"$(block_dir "$DEVICE")/queue/max_sectors_kb" ||
		echo $(($(getconf PAGESIZE) / 1024)) >"$(block_dir "$DEVICE")/queue/max_sectors_kb" || broken "no limit"
	data_stays "$1"
}

# split_by_target MODE: at chunks of 4 KiB, in the device mapper.
split_by_target() {
	null_disk size=64 completion_nsec=10000
	below chunks striped 1 8 "$DEVICE" 0
	data_stays "$1"
}

# part_fails MODE PART: of a read of 64 KiB, 4 KiB at the beginning, in the middle or at the end.
part_fails() {
	local disk end from=$((1024 + $2 * 8))

	null_disk size=64 completion_nsec=10000
	disk=$DEVICE
	end=$(sectors_of "$disk")
	device below "0 $end linear $disk 0"
	crypt parts aes-xts-plain64 ${FLAGS[$1]}
	random_data 1M
	dd if="$DATA" of="$MAPPED" bs=64k oflag=direct status=none || broken "cannot write"
	dmsetup reload "$NAME-below" --table "0 $from linear $disk 0
$from 8 error
$((from + 8)) $((end - from - 8)) linear $disk $((from + 8))" || broken "no error target"
	dmsetup suspend "$NAME-below" && dmsetup resume "$NAME-below" || broken "cannot reload"
	want "read of all 64 KiB" failure \
		"$(outcome dd if="$MAPPED" of=/dev/null bs=64k skip=8 count=1 iflag=direct)"
	want "data of the 64 KiB before and behind" "$(for part in 7 9; do
		dd if="$DATA" bs=64k skip=$part count=1 status=none
	done | md5sum)" "$(for part in 7 9; do
		dd if="$MAPPED" bs=64k skip=$part count=1 iflag=direct status=none
	done | md5sum)"
	no_requests_in_flight "$MAPPED"
}

# on_partition MODE
on_partition() {
	local disk

	null_disk size=64 irqmode=1
	disk=$DEVICE
	addpart "$disk" 1 2048 65536 || broken "no partition"
	defer delpart "$disk" 1
	DEVICE=${disk}p1
	data_stays "$1"
}

# checksums_below MODE: the block layer checks the disk's T10 protection information.
checksums_below() {
	local disk

	[ ! -d /sys/module/scsi_debug ] || skip "scsi_debug is in use"
	modprobe -q scsi_debug dif=1 dix=1 dev_size_mb=16 || skip "needs scsi_debug"
	defer sh -c "modprobe -r scsi_debug || { sleep 1; modprobe -r scsi_debug; }"
	for disk in /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*:*/block/*; do
		DEVICE=/dev/${disk##*/}
	done
	want "protection information" "T10-DIF-TYPE1-CRC" "$(cat "$(block_dir "$DEVICE")/integrity/format")"
	data_stays "$1"
}

# crypt_over_crypt UPPER_MODE/LOWER_MODE CIPHER IRQMODE
crypt_over_crypt() {
	null_disk size=64 "irqmode=$3" completion_nsec=10000
	crypt lower "$2" ${FLAGS[${1#*/}]}
	DEVICE=$MAPPED
	data_stays "${1%/*}" "$2"
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
	CASES+=("counted_once both $irqmode" "split_by_disk both $irqmode" "linear_over_crypt both $irqmode"
		"crypt_over_crypt both/both aes-xts-plain64 $irqmode")
done
for mode in default no_read no_write; do
	CASES+=("counted_once $mode 1" "split_by_disk $mode 2"
		"crypt_over_crypt $mode/both aes-xts-plain64 2" "crypt_over_crypt both/$mode aes-xts-plain64 2")
done
for mode in "${MODES[@]}"; do
	CASES+=("split_by_target $mode" "part_fails $mode 0" "part_fails $mode 7" "part_fails $mode 15"
		"on_partition $mode" "checksums_below $mode")
done
CASES+=("crypt_over_crypt both/both async-xts 2" "snapshot_of_crypt both" "snapshot_of_crypt no_write")
quick_cases "counted_once both 1" "split_by_disk both 1" "split_by_target default" "part_fails both 7" \
	"on_partition both" "checksums_below both" "crypt_over_crypt both/both aes-xts-plain64 1" \
	"linear_over_crypt both 2" "snapshot_of_crypt both"
run
