#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: however much completes at a time, inline decryption does not keep a CPU in softirq
# for long: with 32 reads of 1 MiB and a slow cipher the longest softirq is 10 ms longer at most
# than without the flag, and one that comes again and again leaves tasks their share: of no
# 50 ms do softirqs take 45 on one CPU. What a CPU has had of it counts for all mappings, also for
# the small reads of a fast one.
# Needs: root, dmsetup, fio, null_blk, trace events of irq and workqueue, serpent.
# Endangers: nothing but devices of its own; uses a trace instance of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

LIMIT=10000              # us, of one, above what the kernel takes without the flag
WINDOW=50000 SHARE=45000 # us, of all
TRIES=5                  # of which most count: the host of a guest may be busy

# longest: of the softirqs traced, in us, and the most they took of a WINDOW on one CPU.
longest() {
	awk -v window=$WINDOW '{
		match($0, /\[[0-9]+\]/)
		cpu = substr($0, RSTART, RLENGTH)
	}
	match($0, /[0-9]+\.[0-9]+: softirq_(entry|exit): /) {
		split(substr($0, RSTART, RLENGTH), word, ": ")
		now = word[1] * 1000000
		if (word[2] == "softirq_entry") {
			entry[cpu] = now
		} else if (cpu in entry) {
			took = now - entry[cpu]
			delete entry[cpu]
			if (took > most)
				most = took
			last[cpu]++
			end[cpu, last[cpu]] = now
			length_of[cpu, last[cpu]] = took
			sum[cpu] += took
			while (end[cpu, first[cpu] + 1] < now - window)
				sum[cpu] -= length_of[cpu, ++first[cpu]]
			# Of the oldest one only what lies in the window counts.
			oldest = first[cpu] + 1
			before = now - window - (end[cpu, oldest] - length_of[cpu, oldest])
			if (sum[cpu] - (before > 0 ? before : 0) > share)
				share = sum[cpu] - (before > 0 ? before : 0)
		}
	}
	END { printf "%d %d\n", most, share }' "$INSTANCE/trace"
}

# read_through MAPPING: large reads, all at once; what `longest` says of them in $now and $share.
read_through() {
	echo >"$INSTANCE/trace"
	echo 1 >"$INSTANCE/tracing_on"
	fio --name=slow --filename="$1" --direct=1 --ioengine=libaio --rw=read --bs=1M \
		--iodepth=32 --iodepth_batch=32 --size=32M >/dev/null 2>&1 || broken "fio failed"
	echo 0 >"$INSTANCE/tracing_on"
	read -r now share <<<"$(longest)"
	diag "longest softirq: $now us; most of $WINDOW us: $share us"
	[ "$now" -gt 0 ] || broken "no softirq was traced"
}

# softirqs_are_short MODE IRQMODE
softirqs_are_short() {
	local try now share default limit long=0 short=0

	null_disk slow 32 "irqmode=$2" completion_nsec=10000
	map_flags default serpent-xts-plain64 64 default || return 0
	default=$MAPPED
	map_flags slow serpent-xts-plain64 64 "$1"
	for ((try = 0; try < TRIES && 2 * long < TRIES && 2 * short < TRIES; try++)); do
		read_through "$default"
		limit=$((LIMIT + now))
		read_through "$MAPPED"
		[ "$now" -lt $limit ] && [ "$share" -lt $SHARE ] && short=$((short + 1)) || long=$((long + 1))
	done
	want "most softirqs" short "$([ $short -gt $long ] && echo short || echo long)"
	no_complaints
}

# all_at_once NAME SIZE: a disk that is slow but takes all at once, and completes it at once.
all_at_once() {
	null_disk "$1" "$2" irqmode=2 completion_nsec=10000000 hw_queue_depth=1024
	echo 2 >"/sys/dev/block/$(numbers_of "$DISK")/queue/nomerges" || broken "requests may be merged"
}

# read_small [OPTION]...: 4k from the fast mapping, by one CPU, beside another load of fio's.
read_small() {
	fio --direct=1 --ioengine=libaio --cpus_allowed=0 --time_based --minimal "$@" \
		--name=fast --filename="$MAPPED" --rw=randread --bs=4k --iodepth=64 2>&1
}

# While the reads of a slow cipher take all that a CPU has for them, part of the small ones of
# another mapping goes to kcryptd, also when a read before has paid for them.
small_reads_wait_too() {
	local slow reads left try

	all_at_once slow 32
	map_flags slow serpent-xts-plain64 64 no_read || return 0
	slow=$MAPPED
	all_at_once fast 8
	map_flags fast "capi:ecb-cipher_null-plain64" 0 no_read
	reads=$(read_small --runtime=1) || broken "fio failed: $reads"
	echo 0 >"$INSTANCE/events/irq/enable"
	echo 1 >"$INSTANCE/events/$QUEUED/enable"
	# Where the host of a guest is busy, what it takes from the guest may be pause enough.
	for ((try = left = 0; try < TRIES && left < 5; try++)); do
		echo >"$INSTANCE/trace"
		echo 1 >"$INSTANCE/tracing_on"
		reads=$(read_small --runtime=3 --name=slow --filename="$slow" --rw=read --bs=1M --iodepth=32) ||
			broken "fio failed: $reads"
		echo 0 >"$INSTANCE/tracing_on"
		reads=$(($(cut -d ';' -f 6 <<<"${reads##*$'\n'}") / 4))
		left=$(grep -cE "=kcryptd_crypt_read_continue .*workqueue=kcryptd[-/]$(numbers_of "$MAPPED")(-[0-9]+)? " \
			"$INSTANCE/trace")
		diag "of $reads small reads $left were left to kcryptd"
	done
	want "small reads left to kcryptd" some "$([ "$left" -ge 5 ] && echo some || echo "$left")"
	no_complaints
}

needs fio null_blk flags
needs_events irq/softirq_entry irq/softirq_exit
echo mono >"$INSTANCE/trace_clock" || broken "no clock"

CLAIMS=("softirqs_are_short no_read 1" "softirqs_are_short no_read 2")
# Older kernels do not print the name of a workqueue, nor do reads pay for others there.
QUEUED=workqueue/workqueue_queue_work
grep -q 'workqueue=%s' "/sys/kernel/tracing/events/$QUEUED/format" && CLAIMS+=(small_reads_wait_too)
run_claims
