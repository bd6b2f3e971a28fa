#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="large reads whose inline decryption is stopped go on in kcryptd, with their data"
#
# The AES library may serve aes-xts by code of its own, the crypto API serves serpent.
# Requires: root, dmsetup, fio, null_blk, serpent, trace events of workqueue and block.
# Risks: where reads do not go on, they and their devices stay until the next boot.

. "$(dirname "$0")/common.sh"

PATIENCE=40 # s without a completion; at most 60, after which a debug kernel warns
PASSES=20   # over the disk, until ENOUGH reads were stopped in the middle
NONE=4      # passes without such a read
ENOUGH=8    # and two more for each read that looks stopped without the flag; chance alone gives one

# read_all NAME MAPPING: read the written data in requests of 1 MiB, all at once.
read_all() { going_io $PATIENCE "$1" "$2" --rw=read --bs=1M --iodepth=32 --iodepth_batch=32 --size=32M; }

# queued MAPPING FUNCTION: for each read that was queued for this function of kcryptd, print how long
# the CPU had worked on it, in us: no more than since it began or ended something else.
queued() {
	awk -v work="workqueue_queue_work: .*=$2 .*workqueue=(kcryptd[-/]$(numbers_of "$1")(-[0-9]+)?|[0-9a-f]+|[(]_+ptrval_+[)]) " '
	match($0, /\[[0-9]+\]/) {
		cpu = substr($0, RSTART, RLENGTH)
	}
	match($0, /[0-9]+\.[0-9]+: [a-z_]+: /) {
		now = substr($0, RSTART, RLENGTH) * 1000000
		if ($0 ~ work && cpu in start)
			printf "%d\n", now - start[cpu]
		start[cpu] = now
	}' "$INSTANCE/trace"
}

# longer_than US: print how many of the numbers in stdin are.
longer_than() { awk -v us="$1" '$1 > us { n++ } END { print n + 0 }'; }
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] + 0 }'; }

# stopped_reads_have_their_data IRQMODE CIPHER
#
# Reads without the flag show how long it takes to queue a read that was not decrypted at all, and
# how many of them are delayed by something else. Reads that took longer were stopped in the middle.
stopped_reads_have_their_data() {
	local pass default given taken at_once delayed=0 stopped=0

	# A disk that is slow but takes all at once completes all at once, and each part by itself.
	null_disk size=32 "irqmode=$1" completion_nsec=10000000 hw_queue_depth=1024
	echo 2 >"$(block_dir "$DEVICE")/queue/nomerges" || broken "requests may be merged"
	crypt default "$2"
	default=$MAPPED
	crypt stopped "$2" ${FLAGS[no_read]}
	verified_io written "$default" --rw=write --bs=1M --iodepth=32 --size=32M --do_verify=0
	for ((pass = 0; pass < (stopped ? PASSES : NONE) && stopped < ENOUGH + 2 * delayed; pass++)); do
		traced read_all default "$default"
		given=$(queued "$default" kcryptd_crypt)
		[ -n "$given" ] || broken "no work of kcryptd was traced"
		traced read_all stopped "$MAPPED"
		taken=$(queued "$MAPPED" "kcryptd_crypt(_read_continue)?")
		((failed == 0)) || break
		at_once=$((5 * ($(median <<<"$given") + 1)))
		delayed=$((delayed + $(longer_than $at_once <<<"$given")))
		stopped=$((stopped + $(longer_than $at_once <<<"$taken")))
		diag "after $at_once us or more $stopped reads were stopped, and $delayed delayed without the flag"
	done
	((failed == 0 && stopped < ENOUGH + 2 * delayed)) || return
	# It is certain only where one softirq decrypts everything that the disk completes.
	[ "$1" != 1 ] || [ $stopped -ne 0 ] || skip "here reads end before their time is up"
	want "reads that were stopped in the middle" enough "$stopped"
}

requires fio flags
needs_events workqueue/workqueue_queue_work workqueue/workqueue_execute_start \
	block/block_rq_complete block/block_bio_complete

CASES=("stopped_reads_have_their_data 1 aes-xts-plain64"
	"stopped_reads_have_their_data 2 aes-xts-plain64"
	"stopped_reads_have_their_data 2 serpent-xts-plain64")
run
