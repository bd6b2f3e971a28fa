#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a write whose encryption completes asynchronously is submitted from a
# context that may sleep, so that it can wait for a device that has no free tag.
# Needs: root, dmsetup, fio, null_blk, cryptd; CONFIG_DEBUG_ATOMIC_SLEEP helps.
# Endangers: nothing but devices of its own - on a kernel that does it wrong the
# preemption count is corrupted: run it in a guest.
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# writes_wait MODE: a slow disk with 2 tags, 128 requests for them.
writes_wait() {
	io_goes_well "$1" async-xts 64 "irqmode=2 completion_nsec=200000 hw_queue_depth=2" \
		"--bs=64k --iodepth=64 --numjobs=2 --size=${MIB}M --offset_increment=32M"
}

MIB=$(full_or_quick 16 4) # of a job

needs fio null_blk modes async

CLAIMS=("writes_wait no_write" "writes_wait both")
quick_claims "writes_wait both"
run_claims
