#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: large reads, many at once, whose inline decryption stops in the
# middle because its time is up, go on in kcryptd where they stopped: they end, and have
# what was written through a mapping without the flag. The AES library may serve aes-xts by
# code of its own, the crypto API serves serpent.
# Needs: root, dmsetup, fio, null_blk, serpent, trace events of workqueue and block.
# Endangers: nothing but devices of its own; uses a trace instance of its own. Where reads do
# not go on, they and their devices stay until the next boot.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

PATIENCE=40 # s without a completion; at most 60, after which a debug kernel complains itself
PASSES=20   # over the disk, until ENOUGH reads were stopped in the middle; NONE in so many: give up
NONE=4
ENOUGH=8    # and four for each that may only look so

# read_all NAME MAPPING: what was written is there, in requests of 1 MiB, all at once; traced.
read_all() {
	local load

	echo >"$INSTANCE/trace"
	echo 1 >"$INSTANCE/tracing_on"
	verified_io "$1" "$2" --rw=read --bs=1M --iodepth=32 --iodepth_batch=32 --size=32M &
	load=$!
	ends $load "$2" $PATIENCE || hopeless "reads of $2 hang"
	wait $load
	want "status of the verified reads ($1)" 0 $?
	echo 0 >"$INSTANCE/tracing_on"
}

# handed_over MAPPING FUNCTION: for each read that was left to this work of kcryptd, how long the
# CPU had been at it, in us: no more than since it began or ended something else.
handed_over() {
	awk -v work="workqueue_queue_work: .*=$2 .*workqueue=(kcryptd[-/]$(numbers_of "$1")(-[0-9]+)?|[0-9a-f]+) " '
	match($0, /\[[0-9]+\]/) {
		cpu = substr($0, RSTART, RLENGTH)
	}
	match($0, /[0-9]+\.[0-9]+: [a-z_]+: /) {
		now = substr($0, RSTART, RLENGTH) * 1000000
		if ($0 ~ work && cpu in begun)
			printf "%d\n", now - begun[cpu]
		begun[cpu] = now
	}' "$INSTANCE/trace"
}

# longer_than US: how many of the numbers in stdin are.
longer_than() {
	awk -v us="$1" '$1 > us { n++ } END { print n + 0 }'
}

median() {
	sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] + 0 }'
}

# stopped_reads_have_their_data IRQMODE CIPHER
#
# What decrypts nothing before kcryptd does is done at once, be it refused or have no flag:
# without the flag reads show how long that takes, and how many are delayed by something else.
stopped_reads_have_their_data() {
	local pass default given taken at_once delayed=0 stopped=0

	# A disk that is slow but takes all at once completes all at once, and each part by itself.
	null_disk stopped 32 "irqmode=$1" completion_nsec=10000000 hw_queue_depth=1024
	echo 2 >"/sys/dev/block/$(numbers_of "$DISK")/queue/nomerges" || broken "requests may be merged"
	map_flags default "$2" 64 default || return 0
	default=$MAPPED
	map_flags stopped "$2" 64 no_read
	verified_io written "$default" --rw=write --bs=1M --iodepth=32 --size=32M --do_verify=0
	for ((pass = 0; pass < (stopped ? PASSES : NONE) && stopped < ENOUGH + 4 * delayed; pass++)); do
		read_all default "$default"
		given=$(handed_over "$default" kcryptd_crypt)
		[ -n "$given" ] || broken "no work of kcryptd was traced"
		read_all stopped "$MAPPED"
		taken=$(handed_over "$MAPPED" kcryptd_crypt_read_continue)
		[ -z "$ktap_verdict" ] || break
		at_once=$((5 * ($(median <<<"$given") + 1)))
		delayed=$((delayed + $(longer_than $at_once <<<"$given")))
		stopped=$((stopped + $(longer_than $at_once <<<"$taken")))
		diag "after $at_once us or more $stopped reads were stopped, and $delayed delayed without the flag"
	done
	no_complaints
	[ -z "$ktap_verdict" ] && [ $stopped -lt $((ENOUGH + 4 * delayed)) ] || return 0
	# It is certain only where all that the disk completes is decrypted in one softirq.
	if [ "$1" = 1 ] && [ $stopped -eq 0 ]; then
		skip "here reads end before their time is up"
	else
		want "reads that were stopped in the middle" enough "$stopped"
	fi
}

needs fio null_blk flags
needs_events workqueue/workqueue_queue_work workqueue/workqueue_execute_start \
	block/block_rq_complete block/block_bio_complete
echo mono >"$INSTANCE/trace_clock" || broken "no clock"

CLAIMS=("stopped_reads_have_their_data 1 aes-xts-plain64"
	"stopped_reads_have_their_data 2 aes-xts-plain64"
	"stopped_reads_have_their_data 2 serpent-xts-plain64")
run_claims
