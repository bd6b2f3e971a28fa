#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a read of a sector with a wrong tag fails at once, even if the audit daemon does not answer"
#
# audit_log_start() waits for the daemon up to a minute while the queue of records is full.
# Requires: root, dmsetup, null_blk, dm-integrity, python3, CONFIG_DM_AUDIT, no audit daemon.
# Risks: audit records of other programs are delayed.
# Kernel arguments: audit=1
# Provokes: INTEGRITY AEAD ERROR

. "$(dirname "$0")/common.sh"

READS=8
ARGUMENTS=(integrity:28:aead sector_size:4096)
RATELIMIT=/proc/sys/kernel/printk_ratelimit

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

# refused_reads: print how long READS reads of the forged sector take, in ms.
refused_reads() {
	local read start=${EPOCHREALTIME/./}

	for ((read = 0; read < READS; read++)); do
		dd if="$MAPPED" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null &&
			fail "read $read succeeds"
	done
	echo $(((${EPOCHREALTIME/./} - start) / 1000))
}

# fails_at_once MODE CIPHER
fails_at_once() {
	local before after

	null_disk completion_nsec=10000
	tags_over 28
	KEY=$(key_of "$2" | rev) crypt forger "$2" "${ARGUMENTS[@]}"
	dd if=/dev/zero of="$MAPPED" bs=4k count=1 oflag=direct status=none || broken "cannot forge"
	undo_last
	crypt right "$2" ${FLAGS[$1]} "${ARGUMENTS[@]}"
	before=$(refused_reads)
	sleep 1 # records come from a thread
	log_since "$start_mark" | grep -q "audit: .*module=crypt op=integrity-aead" || skip "needs CONFIG_DM_AUDIT"
	deaf_daemon
	refused_reads >/dev/null # fill the queue
	after=$(refused_reads)
	diag "$READS reads: $before ms; with a daemon that does not answer: $after ms"
	want "the daemon delays reads" no "$([ "$after" -lt $((2 * before + 500)) ] && echo no || echo "$after ms")"
}

requires dd rev python3 target:integrity modes async
! pidof auditd >/dev/null || skip "an audit daemon runs"
defer sh -c "echo $(cat $RATELIMIT) >$RATELIMIT"
echo 0 >$RATELIMIT

for mode in "${MODES[@]}"; do
	CASES+=("fails_at_once $mode capi:gcm(aes)-random" "fails_at_once $mode async-gcm")
done
quick_cases "fails_at_once both capi:gcm(aes)-random" "fails_at_once default async-gcm"
run
