#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="two CPUs never change one queue of cryptd while a CPU goes offline"
#
# Softirqs of that CPU add reads to its queue until it is dead, and a worker on another CPU takes them
# out. lockdep reports it where cryptd has a local lock; without lockdep it is rarely noticed.
# Requires: root, dmsetup, fio, null_blk, cryptd, taskset, a second CPU that can go offline,
# Linux 7, CONFIG_PROVE_LOCKING.
# Risks: on a kernel with the defect requests may hang until the next boot, and memory may be
# corrupted: use a guest.
# CPUs: 2
# Guest: emulated
# Kernel arguments: cryptd.cryptd_max_cpu_qlen=1000

. "$(dirname "$0")/common.sh"

CPU=/sys/devices/system/cpu/cpu1/online
PATIENCE=60 # seconds

cpu_returns() { echo 1 >$CPU; }

# nothing_is_lost: each CPU has a queue of the disk. After the workers have left the CPU the block
# layer waits until the requests in its queue have ended, which takes up to 2 s.
nothing_is_lost() {
	local load i

	null_disk size=32 submit_queues=2 completion_nsec=2000000000 hw_queue_depth=128
	crypt shared async-xts ${FLAGS[no_read]}
	defer cpu_returns
	fio --name=reads --filename="$MAPPED" --direct=1 --ioengine=libaio --rw=randread --bs=16k \
		--iodepth=64 --thread --time_based --runtime=1000 >/dev/null 2>&1 &
	load=$!
	begun_io "$MAPPED" $load
	for ((i = $(full_or_quick 12 4); i > 0; i--)); do
		taskset -acp 1 $load >/dev/null
		sleep 1
		echo 0 >$CPU || broken "the CPU stays online"
		cpu_returns
		no_warnings
	done
	kill -INT $load
	ends $load "$MAPPED" $PATIENCE || hang "a request does not end"
	no_requests_in_flight "$MAPPED"
}

requires fio taskset flags async
[ -e $CPU ] || skip "needs a second CPU that can go offline"
[ -e /proc/lockdep ] || skip "needs CONFIG_PROVE_LOCKING"
[ "$(uname -r | cut -d . -f 1)" -ge 7 ] || skip "needs Linux 7"

CASES=(nothing_is_lost)
run
