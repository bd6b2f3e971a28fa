#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: polled I/O to a mapping of a disk with poll queues is done or refused at once,
# in every mode; it never waits for a completion that nobody polls for.
# Needs: root, dmsetup, fio with io_uring, null_blk with poll queues.
# Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

TIMEOUT=5000 # of the disk, ms: after that it calls a request lost
PATIENCE=60  # s: more than a few such requests

# polled FILE: how polled reads and writes end.
polled() {
	local log status

	log=$(mktemp) || broken "mktemp failed"
	timeout --kill-after=10 $PATIENCE fio --name=polled --filename="$1" --direct=1 \
		--ioengine=io_uring --hipri --rw=randrw --bs=4k --iodepth=8 --size=1M \
		--minimal >"$log" 2>&1
	status=$?
	case $status in
	0) echo "done" ;;
	124 | 137) echo "not in $PATIENCE s" ;;
	*) grep -o -m 1 "$REFUSAL" "$log" || grep -m 1 '^fio: ' "$log" || echo "fio status $status" ;;
	esac
	rm "$log"
}

# polled_disk NAME: it takes polled I/O. It has no memory, which null_blk would wait for
# where it must not.
polled_disk() {
	null_disk "$1" 16 irqmode=1 poll_queues=1 memory_backed=0
	echo $TIMEOUT >"/sys/dev/block/$(numbers_of "$DISK")/queue/io_timeout" || broken "no timeout"
}

# polled_io_ends MODE
polled_io_ends() {
	local ends

	polled_disk polled
	map_flags polled aes-xts-plain64 64 "$1" || return 0
	ends=$(polled "$MAPPED")
	diag "polled I/O: $ends; io_poll of the mapping: $(cat "/sys/dev/block/$(numbers_of "$MAPPED")/queue/io_poll")"
	[ "$ends" != "$REFUSAL" ] || ends="done"
	want "polled I/O" "done" "$ends"
	no_complaints
}

needs fio python3 null_blk modes
REFUSAL=$(strerror EOPNOTSUPP)
REFUSED="skip_all needs poll queues:" polled_disk probe 2>/dev/null
[ "$(cat "/sys/dev/block/$(numbers_of "$DISK")/queue/io_poll")" = 1 ] || skip_all "null_blk does not poll"
fio --name=probe --filename="$DISK" --direct=1 --ioengine=io_uring --rw=read --bs=4k --size=4k \
	>/dev/null 2>&1 || skip_all "needs fio with io_uring, and io_uring"
works=$(polled "$DISK")
[ "$works" = "done" ] || broken "polled I/O to the disk itself: $works"

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("polled_io_ends $mode")
done
quick_claims "polled_io_ends default" "polled_io_ends both"
run_claims
