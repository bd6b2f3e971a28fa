#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a throttled writer does not keep the pages that other encrypted writes need"
#
# A control group limits its writes to the device below; others write through the mapping meanwhile.
# Requires: root, dmsetup, fio, null_blk, the io controller of cgroup v2 with throttling.
# Risks: none.

. "$(dirname "$0")/common.sh"

LIMIT=1024 # bytes a second: the first request would take minutes
# The pages of a mapping are 2 % of the memory at most; this is more.
MIB=$(awk '/^MemTotal/ { print int($2 / 1024 * 3 / 100) }' /proc/meminfo)

# others_write MODE
others_write() {
	local writer other

	null_disk size=$((MIB + 1)) irqmode=0
	crypt throttled aes-xts-plain64 ${FLAGS[$1]}
	echo "$(numbers_of "$DEVICE") wbps=$LIMIT" >"$GROUP/io.max" || broken "no limit"
	(echo $BASHPID >"$GROUP/cgroup.procs" && exec fio --name=writer --filename="$MAPPED" --direct=1 \
		--ioengine=libaio --rw=write --bs=1M "--iodepth=$MIB" "--iodepth_batch=$MIB" "--size=${MIB}M") >/dev/null 2>&1 &
	writer=$!
	wait_for_writes $writer
	dd if=/dev/zero of="$MAPPED" bs=1M "seek=$MIB" count=1 oflag=direct conv=notrunc 2>/dev/null &
	other=$!
	want "the write of the other writer ended" success "$(outcome soon 10 eval "! kill -0 $other")"
	echo "$(numbers_of "$DEVICE") wbps=max" >"$GROUP/io.max"
	wait $other
	want "status of the other writer" 0 $?
	wait $writer
	want "status of the throttled writer" 0 $?
}

# wait_for_writes PID: until that writer makes no more progress.
wait_for_writes() {
	local before=-1 now

	while kill -0 "$1" 2>/dev/null && now=$(awk '{ print $7 + $9 }' "$(block_dir "$MAPPED")/stat"); do
		[ "$now" != $before ] || [ "$now" = 0 ] || break
		before=$now
		sleep 1
	done
}

requires fio modes
grep -qw dm_submit_bio_remap /proc/kallsyms && skip "the device mapper itself charges the writer"
control_group io

CASES=("others_write no_write" "others_write both" "others_write default")
quick_cases "others_write both"
run
