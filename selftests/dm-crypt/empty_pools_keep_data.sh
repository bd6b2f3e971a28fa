#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: when allocations that must not wait fail, of objects or of pages, inline
# reads and writes get slower, and nothing else: no error, no wrong data, no complaint.
# Needs: root, dmsetup, fio, null_blk, debugfs; CONFIG_FAILSLAB and
# CONFIG_FAIL_PAGE_ALLOC for their claims.
# Endangers: other programs may see atomic allocations fail: run it in a guest.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# fail_atomic_allocations KIND: half of those that are not allowed to wait.
fail_atomic_allocations() {
	local knobs=$DEBUGFS/$1

	defer sh -c "echo 0 >$knobs/probability"
	echo N >"$knobs/task-filter"
	echo Y >"$knobs/ignore-gfp-wait"
	want "ignore-gfp-wait" Y "$(cat "$knobs/ignore-gfp-wait")"
	if [ "$1" = fail_page_alloc ]; then
		echo N >"$knobs/ignore-gfp-highmem"
		echo 0 >"$knobs/min-order"
	fi
	echo 0 >"$knobs/verbose"
	echo 1 >"$knobs/interval"
	echo -1 >"$knobs/times"
	echo 50 >"$knobs/probability"
}

# data_survive KIND IRQMODE MODE CIPHER KEY_BYTES: enough at once to empty the pools,
# of requests with many small bios, of pages with large ones on a slow disk.
data_survive() {
	local latency=10000 load="--bs=4k --iodepth=256 --size=$(full_or_quick 8 3)M"

	if ! [ -d "$DEBUGFS/$1" ]; then
		skip "needs $1 in debugfs"
		return
	fi
	if [ "$1" = fail_page_alloc ]; then
		latency=2000000 load="--bs=64k --iodepth=64 --size=$(full_or_quick 16 8)M"
	fi
	null_disk starved 32 "irqmode=$2" "completion_nsec=$latency"
	map_flags starved "$4" "$5" "$3" || return 0
	fail_atomic_allocations "$1"
	# The load is words.
	verified_io "$3" "$MAPPED" --rw=randwrite $load
	undo_last
	no_complaints
}

needs fio debugfs null_blk flags

CLAIMS=()
for irqmode in 1 2; do
	CLAIMS+=("data_survive failslab $irqmode both $ASYNC_XTS 64"
		"data_survive failslab $irqmode both aes-xts-plain64 64"
		"data_survive failslab $irqmode no_read aes-cbc-eboiv 32")
done
for mode in "${MODES[@]}"; do
	CLAIMS+=("data_survive fail_page_alloc 2 $mode aes-xts-plain64 64")
done
CLAIMS+=("data_survive fail_page_alloc 2 both $ASYNC_XTS 64")
quick_claims "data_survive failslab 2 both $ASYNC_XTS 64" \
	"data_survive failslab 2 no_read aes-cbc-eboiv 32" \
	"data_survive fail_page_alloc 2 both aes-xts-plain64 64"
run_claims
