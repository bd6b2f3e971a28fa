#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: with no_read_workqueue no kcryptd worker decrypts, on disks that complete
# in task, softirq and hard interrupt context; with no_write_workqueue no worker
# encrypts and the write thread does not run. Without the flags they do.
# Needs: root, dmsetup, null_blk, trace events of workqueue and sched.
# Endangers: nothing but devices of its own; uses a trace instance of its own.
# CPUs: 1

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

REQUESTS=32

# traced RW DEVICE: requests one at a time, with both sources of hand-overs traced.
traced() {
	local arguments=(if="$2" of=/dev/null iflag=direct)

	[ "$1" = read ] || arguments=(if=/dev/zero of="$2" oflag=direct)
	: >"$INSTANCE/trace"
	echo 1 >"$INSTANCE/tracing_on"
	dd "${arguments[@]}" bs=4k count=$REQUESTS status=none || broken "$1 failed"
	sync "$2"
	echo 0 >"$INSTANCE/tracing_on"
	LINES_SEEN=$(cat "$INSTANCE/trace")
}

# Work that was queued for kcryptd of this mapping and executed in process context: what
# runs in softirq is inline. Where the kernel prints a pointer in place of the workqueue's
# name, there must be no other mapping. Worker functions of dm-crypt carry its prefix.
by_workers() {
	awk -v kcryptd="workqueue=kcryptd[-/]$(numbers_of "$MAPPED")(-[0-9]+)?$" '
		match($0, /work struct[ =][^ :]*/) { work = substr($0, RSTART + 12, RLENGTH - 12) }
		/: workqueue_queue_work: / && /=kcryptd_/ {
			queue = $0
			sub(/ req_cpu=.*/, "", queue)
			if (queue !~ /workqueue=kcryptd[-\/]/ || queue ~ kcryptd)
				mine[work] = 1
		}
		/: workqueue_execute_start: / && / kcryptd_/ && (work in mine) {
			match($0, /\[[0-9]+\] +[^ ]+/)
			flags = substr($0, RSTART, RLENGTH)
			sub(/.* /, "", flags)
			executed += flags !~ /^..[shHZ]/
		}
		END { print executed + 0 }' <<<"$LINES_SEEN"
}

by_write_thread() {
	grep -c "sched_switch: .*next_comm=dmcrypt_write.* next_pid=$WRITER " <<<"$LINES_SEEN"
}

# Of all mappings there are: names are cut short.
write_threads() {
	grep -l '^dmcrypt_write' /proc/[0-9]*/comm 2>/dev/null | tr -dc '0-9\n' | sort
}

# who_works RW MODE IRQMODE: kcryptd is bypassed exactly where the mode says so.
# The null cipher is synchronous everywhere; others continue on kcryptd where not.
who_works() {
	local expected=some seen before

	null_disk traced 16 "irqmode=$3" completion_nsec=10000
	before=$(write_threads)
	if ! grep -q workqueue=%s "$INSTANCE/events/workqueue/workqueue_queue_work/format" && [ -n "$before" ]; then
		skip "another mapping is there, and this kernel does not tell whose work it traces"
		return
	fi
	map_flags traced "capi:ecb-cipher_null-plain64" 0 "$2" || return 0
	WRITER=$(comm -13 <(echo "$before") <(write_threads))
	case $1-$2 in read-no_read | read-both | write-no_write | write-both) expected=none ;; esac
	traced "$1" "$MAPPED"
	seen=$(by_workers)
	want "work done by kcryptd ($seen of $REQUESTS requests)" $expected "$(some "$seen")"
	[ "$1" = read ] || want "runs of the write thread" $expected "$(some "$(by_write_thread)")"
	no_complaints
}

some() {
	[ "$1" -gt 0 ] && echo some || echo none
}

needs dd null_blk flags
needs_events workqueue/workqueue_queue_work workqueue/workqueue_execute_start sched/sched_switch
echo 'next_comm ~ "dmcrypt_write*"' >"$INSTANCE/events/sched/sched_switch/filter" ||
	broken "cannot filter events"

CLAIMS=()
for irqmode in 0 1 2; do
	for mode in "${MODES[@]}"; do
		CLAIMS+=("who_works read $mode $irqmode" "who_works write $mode $irqmode")
	done
done
quick_claims "who_works read default 2" \
	"who_works write default 2" \
	"who_works read no_read 0" \
	"who_works read no_read 1" \
	"who_works read both 2" \
	"who_works write no_read 2" \
	"who_works write both 2"
run_claims
