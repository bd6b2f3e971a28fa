#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a read of a sector with a wrong tag fails before its audit record is written"
#
# audit_log_start() waits for the daemon up to a minute while the queue of records is full.
# Requires: root, dmsetup, null_blk, dm-integrity, python3, CONFIG_DM_AUDIT, CONFIG_STACKTRACE, no audit
# daemon.
# Risks: audit records of other programs are delayed.
# Kernel arguments: audit=1
# Provokes: INTEGRITY AEAD ERROR

. "$(dirname "$0")/common.sh"

READS=8    # more than the queue of audit holds here
MANY=400   # more than dm-crypt keeps
ARGUMENTS=(integrity:28:aead sector_size:4096)

# audit_set MASK PID LIMIT: change the audit subsystem; with a PID, become a daemon that reads nothing.
audit_set() {
	exec python3 - "$@" <<-'END'
		import os, socket, struct, sys, time
		mask, pid, limit = map(int, sys.argv[1:])
		audit = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
		audit.bind((0, 0))
		status = struct.pack("11I", mask, 0, 0, os.getpid() if pid else 0, 0, limit, 0, 0, 0, 0, 0)
		audit.sendto(struct.pack("IHHII", 16 + len(status), 1001, 5, 1, 0) + status, (0, 0))
		answers = iter(lambda: struct.unpack_from("IHHIIi", audit.recv(8192)), None)
		error = next(answer[-1] for answer in answers if answer[1] == 2)
		audit.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
		print(error, flush=True)
		time.sleep(600 if pid else 0)
	END
}

# deaf_daemon: start one, with a queue of one record.
deaf_daemon() {
	local answer

	exec 3< <(audit_set 20 1 1)
	DAEMON=$!
	defer eval "kill $DAEMON; audit_ended"
	read -r answer <&3
	[ "$answer" = 0 ] || broken "the audit subsystem takes no daemon: $answer"
}

audit_ended() { (audit_set 16 0 64) >/dev/null; }

# forged MODE CIPHER SECTORS: the tags of the first sectors are wrong. Sets $MAPPED.
forged() {
	null_disk completion_nsec=10000
	tags_over 28
	KEY=$(key_of "$2" | rev) crypt forger "$2" "${ARGUMENTS[@]}"
	dd if=/dev/zero of="$MAPPED" bs=4k count="$3" oflag=direct status=none || broken "cannot forge"
	undo_last
	crypt right "$2" ${FLAGS[$1]} "${ARGUMENTS[@]}"
	refused_reads 1
	soon 20 records_are 1 || fail "no audit record of a wrong tag"
}

# refused_reads COUNT: read the first sectors one after the other.
refused_reads() {
	want "reads that fail with EILSEQ" "$1" "$(dd if="$MAPPED" of=/dev/null bs=4k count="$1" iflag=direct \
		conv=noerror,sync 2>&1 | grep -cF "$EILSEQ")"
}

# a_record_waits: a task waits for space in the queue of audit.
a_record_waits() { grep -qs audit_log_start /proc/[0-9]*/stack; }

# records: count the audit records in the log.
records() {
	log_since "$start_mark" | sed -n 's/.*audit(\([0-9.:]*\)): module=crypt op=integrity-aead .*/\1/p' | sort -u | wc -l
}

# dropped: sum up the numbers of dropped records in the log.
dropped() {
	log_since "$start_mark" |
		awk '/crypt: .*: dropped [0-9]+ audit records/ { sub(/.*dropped /, ""); sum += $1 } END { print sum + 0 }'
}

records_are() { [ $(($(records) + $(dropped))) -eq "$1" ]; }

# fails_before_its_record MODE CIPHER: a read has failed, and its record still waits.
fails_before_its_record() {
	local reads=1 waits=no

	forged "$1" "$2" $READS
	deaf_daemon
	while [ $waits = no ] && [ $reads -lt $((5 * READS)) ]; do
		refused_reads $READS
		reads=$((reads + READS))
		! a_record_waits || waits=yes
	done
	want "a record waits after the reads" yes $waits
	undo_last # no daemon: records go to the log
	soon 20 records_are $reads
	want "records" $reads "$(records)"
}

# dropped_records_are_counted MODE CIPHER: dm-crypt keeps up to 256 records while audit takes none.
dropped_records_are_counted() {
	forged "$1" "$2" $MANY
	deaf_daemon
	refused_reads $MANY
	undo_last
	soon 20 records_are $((MANY + 1))
	diag "$(records) records, $(dropped) dropped"
	want "records, with those that were dropped" $((MANY + 1)) $(($(records) + $(dropped)))
	want "the log has a number of dropped records" yes "$([ "$(dropped)" -gt 0 ] && echo yes || echo no)"
}

[ -r /proc/self/stack ] || skip "needs CONFIG_STACKTRACE"
zgrep -qs ^CONFIG_DM_AUDIT=y /proc/config.gz || grep -qs ^CONFIG_DM_AUDIT=y "/boot/config-$(uname -r)" ||
	skip "needs CONFIG_DM_AUDIT"
requires dd rev python3 target:integrity modes async
EILSEQ=$(strerror EILSEQ)
! pidof auditd >/dev/null || skip "an audit daemon runs"
for_now /proc/sys/kernel/printk_ratelimit 0

for mode in "${MODES[@]}"; do
	CASES+=("fails_before_its_record $mode capi:gcm(aes)-random" "fails_before_its_record $mode async-gcm")
done
CASES+=("dropped_records_are_counted both capi:gcm(aes)-random" "dropped_records_are_counted default async-gcm")
quick_cases "fails_before_its_record both capi:gcm(aes)-random" \
	"fails_before_its_record default async-gcm" "dropped_records_are_counted both capi:gcm(aes)-random"
run
