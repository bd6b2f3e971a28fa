#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: completions that the device loses, and the block layer's timeout finds,
# reach the caller with the right data in every mode.
# Needs: root, dmsetup, fio, null_blk, CONFIG_FAIL_IO_TIMEOUT, debugfs.
# Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

INJECT=$DEBUGFS/fail_io_timeout

# late_but_right MODE CIPHER: every twentieth completion is lost for 100 ms.
late_but_right() {
	local queue

	null_disk late 32 irqmode=1
	queue=/sys/block/${DISK#/dev/}
	echo 100 >"$queue/queue/io_timeout" || broken "no timeout can be set"
	map_flags late "$2" 64 "$1" || return 0
	defer sh -c "echo 0 >$INJECT/probability"
	echo N >$INJECT/task-filter
	echo 0 >$INJECT/verbose
	echo 1 >$INJECT/interval
	echo -1 >$INJECT/times
	echo 5 >$INJECT/probability
	echo 1 >"$queue/io-timeout-fail" || broken "no completion can be lost"
	verified_io late "$MAPPED" --rw=randwrite --bs=16k --iodepth=16 --size=4M
	echo 0 >"$queue/io-timeout-fail"
	want "a completion was lost" success "$(log_since_mark | outcome grep 'timed out')"
	no_complaints
}

needs fio fail_io_timeout null_blk flags

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("late_but_right $mode aes-xts-plain64")
done
CLAIMS+=("late_but_right both $ASYNC_XTS")
run_claims
