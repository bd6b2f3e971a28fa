#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a writer whose control group may hardly write to the device below does not
# keep the pages that encrypted writes need: others write through the mapping meanwhile.
# Needs: root, dmsetup, fio, null_blk, the io controller of cgroup v2 with throttling.
# Endangers: nothing but devices and a control group of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

LIMIT=1024 # bytes a second: the first request would take minutes
# The pages of a mapping are 2 % of the memory at most; this is more.
MIB=$(awk '/^MemTotal/ { print int($2 / 1024 * 3 / 100) }' /proc/meminfo)

# others_write MODE
others_write() {
	local writer other end

	null_disk throttled $((MIB + 1)) irqmode=0
	map_flags throttled aes-xts-plain64 64 "$1" || return 0
	echo "$(numbers_of "$DISK") wbps=$LIMIT" >"$GROUP/io.max" || broken "no limit"
	(echo $BASHPID >"$GROUP/cgroup.procs" && exec fio --name=writer --filename="$MAPPED" --direct=1 \
		--ioengine=libaio --rw=write --bs=1M "--iodepth=$MIB" "--iodepth_batch=$MIB" "--size=${MIB}M") >/dev/null 2>&1 &
	writer=$!
	begun_to_write $writer
	dd if=/dev/zero of="$MAPPED" bs=1M "seek=$MIB" count=1 oflag=direct conv=notrunc 2>/dev/null &
	other=$!
	end=$((SECONDS + 10))
	while kill -0 $other 2>/dev/null && [ $SECONDS -lt $end ]; do
		sleep 0.1
	done
	want "the write of another" ended "$(kill -0 $other 2>/dev/null && echo waits || echo ended)"
	echo "$(numbers_of "$DISK") wbps=max" >"$GROUP/io.max"
	wait $other
	want "status of the other writer" 0 $?
	wait $writer
	want "status of the throttled writer" 0 $?
	no_complaints
}

# begun_to_write PID: until that writer has got as far as it gets; its status tells how it ended.
begun_to_write() {
	local before=-1 now

	while kill -0 "$1" 2>/dev/null && now=$(awk '{ print $7 + $9 }' "/sys/dev/block/$(numbers_of "$MAPPED")/stat"); do
		[ "$now" != $before ] || [ "$now" = 0 ] || break
		before=$now
		sleep 1
	done
}

needs fio null_blk modes
grep -qw dm_submit_bio_remap /proc/kallsyms && skip_all "the device mapper itself says who writes"
control_group io

CLAIMS=("others_write no_write" "others_write both" "others_write default")
quick_claims "others_write both"
run_claims
