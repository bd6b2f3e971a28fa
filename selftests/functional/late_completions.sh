#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a request whose completion the disk loses fails with a timeout, and no other request does"
#
# In all modes. Nothing stays in flight, and afterwards the mapping works as before.
# Requires: root, dmsetup, fio, null_blk, CONFIG_FAIL_IO_TIMEOUT, debugfs.
# Risks: none.
# CPUs: 2
# Guest: emulated

. "$(dirname "$0")/common.sh"

INJECT=$DEBUGFS/fail_io_timeout

# times_out_once MODE CIPHER: every twentieth completion is lost for 100 ms.
times_out_once() {
	local queue errors lost

	null_disk size=32 irqmode=1
	queue=/sys/block/${DEVICE#/dev/}
	echo 100 >"$queue/queue/io_timeout" || broken "no timeout can be set"
	echo 2 >"$queue/queue/nomerges" || broken "requests may be merged"
	crypt late "$2" ${FLAGS[$1]}
	inject $INJECT times=1000 probability=5
	echo 1 >"$queue/io-timeout-fail" || broken "no completion can be lost"
	errors=$(fio --name=late --filename="$MAPPED" --direct=1 --ioengine=libaio --rw=randrw \
		--bs=16k --iodepth=16 --size=4M --continue_on_error=all 2>&1 | grep 'io_u error')
	echo 0 >"$queue/io-timeout-fail"
	lost=$((1000 - $(cat $INJECT/times)))
	want "requests lost" some "$([ $lost -gt 0 ] && echo some)"
	want "each timed out: $lost" yes "$([ "$(grep -c "$LATE" <<<"$errors")" -ge $lost ] && echo yes)"
	want "other errors" "" "$(grep -v "$LATE" <<<"$errors" | head -n 3)"
	no_requests_in_flight "$MAPPED"
	verified_io late "$MAPPED" --rw=randwrite --bs=16k --iodepth=16 --size=1M
}

requires fio python3 debugfs modes async
LATE=$(strerror ETIMEDOUT)
[ -d "$INJECT" ] || skip "needs fail_io_timeout in debugfs"

for mode in "${MODES[@]}"; do
	CASES+=("times_out_once $mode aes-xts-plain64")
done
CASES+=("times_out_once both async-xts")
quick_cases "times_out_once both aes-xts-plain64"
run
