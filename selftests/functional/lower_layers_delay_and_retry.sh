#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="requests succeed when multipath below retries them or the io controller delays them"
#
# Requires: root, dmsetup, fio, null_blk, dm-multipath, the io controller of cgroup v2 with cost.
# Risks: none.

. "$(dirname "$0")/common.sh"

# path_fails MODE: one path of bio-based multipath fails, then the other, too, and comes back.
path_fails() {
	local disk end path paths=() reader

	null_disk size=64 completion_nsec=10000
	disk=$DEVICE
	end=$(sectors_of "$disk")
	for path in 1 2; do
		device path$path "0 $end linear $disk 0"
		paths+=("$DEVICE" 1)
	done
	device paths "0 $end multipath 3 queue_if_no_path queue_mode bio 0 1 1 round-robin 0 2 1 ${paths[*]}"
	crypt multipath aes-xts-plain64 ${FLAGS[$1]}
	random_data 8M
	dd if="$DATA" of="$MAPPED" bs=64k oflag=direct status=none || broken "cannot write"
	path_becomes 1 "error"
	want "data with one path" "$(md5sum <"$DATA")" "$(data_read)"
	path_becomes 2 "error"
	data_read >"$DATA.sum" &
	reader=$!
	defer rm "$DATA.sum"
	sleep 1
	want "a read without a path" waits "$(kill -0 $reader 2>/dev/null && echo waits || echo ended)"
	path_becomes 2 "linear $disk 0"
	dmsetup message "$NAME-paths" 0 "reinstate_path ${paths[2]}" || broken "cannot reinstate"
	wait $reader
	want "data with the path back" "$(md5sum <"$DATA")" "$(cat "$DATA.sum")"
	no_requests_in_flight "$MAPPED"
}

# path_becomes NUMBER TARGET
path_becomes() {
	dmsetup reload "$NAME-path$1" --table "0 $(sectors_of "$DEVICE") $2" &&
		dmsetup suspend "$NAME-path$1" && dmsetup resume "$NAME-path$1" || broken "cannot reload"
}

data_read() { dd if="$MAPPED" bs=64k count=128 iflag=direct status=none | md5sum; }

# controlled MODE: the io controller counts what is in flight below, and limits its cost.
controlled() {
	control_group io
	[ -e "${GROUP%/*}/io.cost.qos" ] || skip "needs io.cost.qos"
	null_disk size=64 completion_nsec=10000
	echo "$(numbers_of "$DEVICE") enable=1 ctrl=user rpct=95 rlat=50 wpct=95 wlat=50 min=50 max=150" \
		>"${GROUP%/*}/io.cost.qos" || broken "no limits"
	crypt controlled aes-xts-plain64 ${FLAGS[$1]}
	defer sh -c "echo $BASHPID >${GROUP%/*}/cgroup.procs"
	echo $BASHPID >"$GROUP/cgroup.procs"
	verified_io controlled "$MAPPED" --rw=randrw --bsrange=4k-64k --iodepth=16 --size=8M
	no_requests_in_flight "$MAPPED"
}

requires fio modes target:multipath

for mode in "${MODES[@]}"; do
	CASES+=("path_fails $mode" "controlled $mode")
done
quick_cases "path_fails both" "controlled both"
run
