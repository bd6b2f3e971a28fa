#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="polled I/O to a mapping of a disk with poll queues succeeds or is refused, and never hangs"
#
# In all modes.
# Requires: root, dmsetup, fio with io_uring, null_blk with poll queues.
# Risks: none.

. "$(dirname "$0")/common.sh"

TIMEOUT=5000 # of the disk, ms: after that it gives a request up
PATIENCE=60  # s: more than a few such requests

# polled FILE RW: print how polled requests end.
polled() {
	local log status

	log=$(mktemp) || broken "mktemp failed"
	timeout --kill-after=10 $PATIENCE fio --name=polled --filename="$1" --direct=1 \
		--ioengine=io_uring --hipri --rw="$2" --bs=4k --iodepth=8 --size=1M \
		--minimal >"$log" 2>&1
	status=$?
	case $status in
	0) echo "done" ;;
	124 | 137) echo "not in $PATIENCE s" ;;
	*) grep -o -m 1 "$REFUSAL" "$log" || grep -m 1 '^fio: ' "$log" || echo "fio status $status" ;;
	esac
	rm "$log"
}

# polled_disk: create one without memory, which null_blk would wait for where it must not.
polled_disk() {
	null_disk irqmode=1 poll_queues=1 memory_backed=0
	echo $TIMEOUT >"$(block_dir "$DEVICE")/queue/io_timeout" || broken "no timeout"
}

# polled_io_ends MODE RW: reads and writes apart, since polling for a read also completes writes.
polled_io_ends() {
	local ends

	polled_disk
	crypt polled aes-xts-plain64 ${FLAGS[$1]}
	ends=$(polled "$MAPPED" "$2")
	diag "polled I/O: $ends; io_poll of the mapping: $(cat "$(block_dir "$MAPPED")/queue/io_poll")"
	[ "$ends" != "$REFUSAL" ] || ends="done"
	want "polled I/O" "done" "$ends"
}

requires fio python3 modes
REFUSAL=$(strerror EOPNOTSUPP)
null_disk
[ -e "$NULLB/$NAME-$disks/poll_queues" ] || skip "needs null_blk with poll queues"
polled_disk
[ "$(cat "$(block_dir "$DEVICE")/queue/io_poll")" = 1 ] || skip "null_blk does not poll"
fio --name=probe --filename="$DEVICE" --direct=1 --ioengine=io_uring --rw=read --bs=4k --size=4k \
	>/dev/null 2>&1 || skip "needs fio with io_uring, and io_uring"
works=$(polled "$DEVICE" randrw)
[ "$works" = "done" ] || broken "polled I/O to the disk itself: $works"

for mode in "${MODES[@]}"; do
	CASES+=("polled_io_ends $mode randread" "polled_io_ends $mode randwrite")
done
quick_cases "polled_io_ends both randread" "polled_io_ends both randwrite"
run
