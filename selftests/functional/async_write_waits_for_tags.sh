#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="dm-crypt submits writes of an asynchronous cipher where they may wait for a tag of the disk"
#
# Linux from 5.9 on submitted them in the completion of the cipher, with bottom halves disabled.
# Requires: root, dmsetup, fio, null_blk, cryptd; CONFIG_DEBUG_ATOMIC_SLEEP finds more.
# Risks: on a kernel with the defect the preemption count is corrupted: use a guest.
# Guest: emulated

. "$(dirname "$0")/common.sh"

# writes_wait MODE: a slow disk with 2 tags, 128 requests for them.
writes_wait() {
	io_succeeds "$1" async-xts "irqmode=2 completion_nsec=200000 hw_queue_depth=2" \
		"--bs=64k --iodepth=64 --numjobs=2 --size=$(full_or_quick 16 4)M --offset_increment=32M"
}

requires fio modes async

CASES=("writes_wait no_write" "writes_wait both")
quick_cases "writes_wait both"
run
