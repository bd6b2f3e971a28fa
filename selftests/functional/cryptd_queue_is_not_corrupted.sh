#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="cryptd loses no request when tasks and softirqs of one CPU add to its queue"
#
# Linux 5.8 disabled only preemption there.
# Requires: root, dmsetup, fio, null_blk, cryptd; CONFIG_DEBUG_LIST finds more.
# Risks: on a kernel with the defect requests may hang until the next boot, and memory may be
# corrupted: use a guest.
# Kernel arguments: cryptd.cryptd_max_cpu_qlen=1000

. "$(dirname "$0")/common.sh"

PATIENCE=20 # seconds

# nothing_is_lost IRQMODE: inline writes enqueue in their tasks, inline reads in softirq.
nothing_is_lost() {
	null_disk size=32 "irqmode=$1" completion_nsec=5000 hw_queue_depth=128
	crypt shared async-xts ${FLAGS[both]}
	going_io $PATIENCE shared "$MAPPED" --rw=randrw --bs=4k --iodepth=32 --numjobs=4 --size=8M \
		--offset_increment=8M --cpus_allowed=0 --time_based "--runtime=$(full_or_quick 60 8)"
}

requires fio flags async

CASES=("nothing_is_lost 1" "nothing_is_lost 2")
run
