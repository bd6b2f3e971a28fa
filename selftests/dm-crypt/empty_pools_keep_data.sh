#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: when allocations that must not wait fail, inline reads and writes get
# slower, and nothing else: no error, no wrong data, no complaint.
# Needs: root, dmsetup, fio, null_blk, CONFIG_FAILSLAB, debugfs.
# Endangers: other programs may see atomic allocations fail: run it in a guest.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

FAILSLAB=$DEBUGFS/failslab

# Every second slab allocation fails that is not allowed to wait.
fail_atomic_allocations() {
	defer sh -c "echo 0 >$FAILSLAB/probability"
	echo N >$FAILSLAB/task-filter
	echo Y >$FAILSLAB/ignore-gfp-wait
	want "ignore-gfp-wait" Y "$(cat $FAILSLAB/ignore-gfp-wait)"
	echo 0 >$FAILSLAB/verbose
	echo 1 >$FAILSLAB/interval
	echo -1 >$FAILSLAB/times
	echo 50 >$FAILSLAB/probability
}

# data_survive IRQMODE MODE CIPHER KEY_BYTES
data_survive() {
	null_disk starved 32 "irqmode=$1" completion_nsec=10000
	map_flags starved "$3" "$4" "$2" || return 0
	fail_atomic_allocations
	verified_io "$2" "$MAPPED" --rw=randwrite --bs=64k --iodepth=32 --size=8M
	echo 0 >$FAILSLAB/probability
	no_complaints
}

needs fio failslab null_blk flags

CLAIMS=()
for irqmode in 1 2; do
	CLAIMS+=("data_survive $irqmode both $ASYNC_XTS 64"
		"data_survive $irqmode both aes-xts-plain64 64"
		"data_survive $irqmode no_read aes-cbc-eboiv 32")
done
quick_claims "data_survive 2 both $ASYNC_XTS 64" \
	"data_survive 2 no_read aes-cbc-eboiv 32"
run_claims
