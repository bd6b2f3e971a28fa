#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a request whose completion the device loses fails with the error of the
# block layer's timeout, in every mode, and no other does; nothing stays in flight,
# and afterwards the mapping works as before.
# Needs: root, dmsetup, fio, null_blk, CONFIG_FAIL_IO_TIMEOUT, debugfs.
# Endangers: nothing but devices of its own.
# CPUs: 2
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

INJECT=$DEBUGFS/fail_io_timeout

# times_out_once MODE CIPHER: every twentieth completion is lost for 100 ms.
times_out_once() {
	local queue errors lost

	null_disk late 32 irqmode=1
	queue=/sys/block/${DISK#/dev/}
	echo 100 >"$queue/queue/io_timeout" || broken "no timeout can be set"
	echo 2 >"$queue/queue/nomerges" || broken "requests may be merged"
	map_flags late "$2" 64 "$1" || return 0
	defer sh -c "echo 0 >$INJECT/probability"
	echo N >$INJECT/task-filter
	echo 0 >$INJECT/verbose
	echo 1 >$INJECT/interval
	echo 1000 >$INJECT/times
	echo 5 >$INJECT/probability
	echo 1 >"$queue/io-timeout-fail" || broken "no completion can be lost"
	errors=$(fio --name=late --filename="$MAPPED" --direct=1 --ioengine=libaio --rw=randrw \
		--bs=16k --iodepth=16 --size=4M --continue_on_error=all 2>&1 | grep 'io_u error')
	echo 0 >"$queue/io-timeout-fail"
	lost=$((1000 - $(cat $INJECT/times)))
	want "requests lost" some "$([ $lost -gt 0 ] && echo some)"
	want "whether each timed out: $lost" yes "$([ "$(grep -c "$LATE" <<<"$errors")" -ge $lost ] && echo yes)"
	want "other errors" "" "$(grep -v "$LATE" <<<"$errors" | head -n 3)"
	want "requests in flight" "0 0" \
		"$(xargs <"/sys/dev/block/$(numbers_of "$MAPPED")/inflight")"
	verified_io late "$MAPPED" --rw=randwrite --bs=16k --iodepth=16 --size=1M
	no_complaints
}

needs fio python3 debugfs null_blk modes async
LATE=$(strerror ETIMEDOUT)
[ -d "$INJECT" ] || skip_all "needs fail_io_timeout in debugfs"

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("times_out_once $mode aes-xts-plain64")
done
CLAIMS+=("times_out_once both async-xts")
quick_claims "times_out_once both aes-xts-plain64"
run_claims
