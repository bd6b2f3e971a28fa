#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: tasks and softirqs of one CPU may both give requests to cryptd: none is lost, and
# the queue stays whole.
# Needs: root, dmsetup, fio, null_blk, cryptd; CONFIG_DEBUG_LIST makes it certain.
# Endangers: nothing but devices of its own - where it fails, requests may hang until the
# next boot, and memory may be corrupted: run it in a guest.
# Kernel arguments: cryptd.cryptd_max_cpu_qlen=1000

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

RUNTIME=$(full_or_quick 60 8)
PATIENCE=20

# nothing_is_lost IRQMODE: inline writes enqueue in their tasks, inline reads in softirq.
nothing_is_lost() {
	local load seen=-1 now idle=0

	null_disk shared 32 "irqmode=$1" completion_nsec=5000 hw_queue_depth=128
	map_flags shared async-xts 64 both || return 0
	verified_io shared "$MAPPED" --rw=randrw --bs=4k --iodepth=32 --numjobs=4 --size=8M \
		--offset_increment=8M --cpus_allowed=0 --time_based "--runtime=$RUNTIME" &
	load=$!
	while kill -0 $load 2>/dev/null; do
		now=$(completed "$MAPPED")
		[ "$now" -eq "$seen" ] && idle=$((idle + 1)) || idle=0
		seen=$now
		if [ $idle -ge $PATIENCE ]; then
			want "seconds without a completion" "below $PATIENCE" $idle
			no_complaints
			hopeless "what is lost cannot be cleaned up"
		fi
		sleep 1
	done
	wait $load
	want "status of the verified I/O" 0 $?
	no_complaints
}

needs fio null_blk flags async

CLAIMS=("nothing_is_lost 1" "nothing_is_lost 2")
run_claims
