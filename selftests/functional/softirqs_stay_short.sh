#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="inline decryption keeps no CPU in softirq for long, however much completes at once"
#
# With 32 reads of 1 MiB and a slow cipher the longest softirq is at most 10 ms longer than without the
# flag, and softirqs take less than 45 of any 50 ms on a CPU.
# Requires: root, dmsetup, fio, null_blk, trace events of irq and sched, serpent.
# Risks: none.

. "$(dirname "$0")/common.sh"

LIMIT=10000              # us, of one, above the shortest of all times without the flag
WINDOW=50000 SHARE=45000 # us, of all
TRIES=6                  # of which two count: a busy host only lengthens softirqs

# longest: print the longest softirq, in us, and the most that softirqs took of a WINDOW on one CPU.
longest() {
	awk -v window=$WINDOW 'match($0, /[0-9]+ +\[[0-9]+\]/) {
		split(substr($0, RSTART, RLENGTH), where, " +")
		cpu = where[2]
	}
	match($0, /[0-9]+\.[0-9]+: (softirq_entry|softirq_exit|sched_switch): /) {
		split(substr($0, RSTART, RLENGTH), word, ": ")
		now = word[1] * 1000000
		task = cpu where[1]
		if (word[2] == "softirq_entry") {
			entry[task] = now
		} else if (word[2] == "sched_switch") {
			# PREEMPT_RT preempts softirqs: the time of other tasks does not count.
			match($0, /next_pid=[0-9]+/)
			left[task] = now
			task = cpu substr($0, RSTART + 9, RLENGTH - 9)
			if (task in entry)
				entry[task] += now - left[task]
		} else if (task in entry) {
			took = now - entry[task]
			delete entry[task]
			most = took > most ? took : most
			end[cpu, ++last[cpu]] = now
			length_of[cpu, last[cpu]] = took
			sum[cpu] += took
			while (end[cpu, first[cpu] + 1] < now - window)
				sum[cpu] -= length_of[cpu, ++first[cpu]]
			# Only the part of the oldest one that lies in the window counts.
			oldest = first[cpu] + 1
			before = now - window - (end[cpu, oldest] - length_of[cpu, oldest])
			if (sum[cpu] - (before > 0 ? before : 0) > share)
				share = sum[cpu] - (before > 0 ? before : 0)
		}
	}
	END { printf "%d %d\n", most, share }' "$INSTANCE/trace"
}

# read_through: large reads of $MAPPED, all at once. Sets $now and $share to what `longest` prints.
read_through() {
	traced fio --name=slow --filename="$MAPPED" --direct=1 --ioengine=libaio --rw=read --bs=1M \
		--iodepth=32 --iodepth_batch=32 --size=32M >/dev/null 2>&1 || broken "fio failed"
	read -r now share <<<"$(longest)"
	diag "longest softirq: $now us; most of $WINDOW us: $share us"
	[ "$now" -gt 0 ] || broken "no softirq was traced"
}

# softirqs_are_short MODE IRQMODE
softirqs_are_short() {
	local try now share limit=$WINDOW short=0

	null_disk size=32 "irqmode=$2" completion_nsec=10000
	crypt default serpent-xts-plain64
	for ((try = 0; try < TRIES; try++)); do
		read_through
		limit=$((now + LIMIT < limit ? now + LIMIT : limit))
	done
	crypt slow serpent-xts-plain64 ${FLAGS[$1]}
	for ((try = 0; try < TRIES && short < 2; try++)); do
		read_through
		[ "$now" -ge $limit ] || [ "$share" -ge $SHARE ] || short=$((short + 1))
	done
	want "times with short softirqs" 2 $short
}

requires fio flags
needs_events irq/softirq_entry irq/softirq_exit sched/sched_switch

CASES=("softirqs_are_short no_read 1" "softirqs_are_short no_read 2")
run
