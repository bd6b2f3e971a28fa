#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: however much completes at a time, inline decryption does not keep a CPU in softirq
# for long: with 32 reads of 1 MiB and a slow cipher no softirq takes 10 ms.
# Needs: root, dmsetup, fio, null_blk, trace events of irq, serpent.
# Endangers: nothing but devices of its own; uses a trace instance of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

LIMIT=10000 TRIES=5 # the host of a guest may be busy, each time for another reason

# longest: of the softirqs traced, in us.
longest() {
	awk '{
		match($0, /\[[0-9]+\]/)
		cpu = substr($0, RSTART, RLENGTH)
	}
	match($0, /[0-9]+\.[0-9]+: softirq_(entry|exit): /) {
		split(substr($0, RSTART, RLENGTH), word, ": ")
		if (word[2] == "softirq_entry")
			entry[cpu] = word[1]
		else if (cpu in entry && word[1] - entry[cpu] > most)
			most = word[1] - entry[cpu]
	}
	END { printf "%d\n", most * 1000000 }' "$INSTANCE/trace"
}

# softirqs_are_short MODE IRQMODE
softirqs_are_short() {
	local try now least=""

	null_disk slow 32 "irqmode=$2" completion_nsec=10000
	map_flags slow serpent-xts-plain64 64 "$1" || return 0
	for ((try = 0; try < TRIES; try++)); do
		echo >"$INSTANCE/trace"
		echo 1 >"$INSTANCE/tracing_on"
		fio --name=slow --filename="$MAPPED" --direct=1 --ioengine=libaio --rw=read --bs=1M \
			--iodepth=32 --iodepth_batch=32 --size=32M >/dev/null 2>&1 || broken "fio failed"
		echo 0 >"$INSTANCE/tracing_on"
		now=$(longest)
		diag "longest softirq: $now us"
		[ -n "$least" ] && [ "$now" -ge "$least" ] || least=$now
		[ "$least" -ge $LIMIT ] || break
	done
	[ "$least" -gt 0 ] || broken "no softirq was traced"
	[ "$least" -ge $LIMIT ] || least="below $LIMIT"
	want "longest softirq, us" "below $LIMIT" "$least"
	no_complaints
}

needs fio null_blk flags
needs_events irq/softirq_entry irq/softirq_exit
echo mono >"$INSTANCE/trace_clock" || broken "no clock"

CLAIMS=("softirqs_are_short no_read 1" "softirqs_are_short no_read 2")
run_claims
