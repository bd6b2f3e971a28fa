#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="dm-crypt refuses, logs and audits sectors with wrong tags, in softirq too"
#
# Linux 5.16 to 7.3 allocated memory for audit with GFP_KERNEL in softirq.
# Requires: root, dmsetup, null_blk, dm-integrity; CONFIG_DEBUG_ATOMIC_SLEEP finds more. Audit records
# require CONFIG_DM_AUDIT and no audit daemon.
# Risks: none.
# Kernel arguments: audit=1
# Provokes: INTEGRITY AEAD ERROR
# CPUs: 1
# Guest: emulated

. "$(dirname "$0")/common.sh"

FAR=512 # a sector
ARGUMENTS=(integrity:28:aead sector_size:4096)

# refused MODE IRQMODE CIPHER: another key writes the tags of the second 4k, and of numbers FAR and
# FAR + 2. A synchronous cipher ends at the first one of a read.
refused() {
	local sector right records sectors

	null_disk "irqmode=$2" completion_nsec=10000
	tags_over 28
	random_data $(((FAR + 4) * 4))k
	crypt right "$3" ${FLAGS[$1]} "${ARGUMENTS[@]}"
	right=$MAPPED
	dd if="$DATA" of="$right" bs=16k oflag=direct status=none || broken "cannot write"
	KEY=$(key_of "$3" | rev) crypt forger "$3" "${ARGUMENTS[@]}"
	for sector in 1 $FAR $((FAR + 2)); do
		dd if="$DATA" of="$MAPPED" bs=4k seek=$sector count=1 oflag=direct status=none || broken "cannot forge"
	done
	undo_last
	MAPPED=$right
	read_refused 4k 1
	read_refused 16k 0
	read_refused 4k $FAR
	read_refused 16k $((FAR / 4))
	for sector in "0 1" "2 $((FAR - 2))" "$((FAR + 1)) 1" "$((FAR + 3)) 1"; do
		want "difference of the data from sector ${sector/ / on, }" "" "$(read_at 4k $sector |
			cmp - <(dd if="$DATA" bs=4k skip="${sector% *}" count="${sector#* }" status=none) 2>&1)"
	done
	# Messages come after the read, audit records from a thread.
	want "message" success "$(outcome soon 3 logged)"
	if log_since "$start_mark" | grep -q "audit: .*module=crypt op=ctr"; then
		sectors=("$((FAR * 8))" 8)
		[[ $3 != async-* ]] || sectors=("$((FAR * 8))" "$((FAR * 8 + 16))" 8)
		records=$(printf "dev=$(numbers_of "$DEVICE") sector=%s\n" "${sectors[@]}")
		soon 3 audited "$records"
		want "audit records" "$records" "$(audited)"
	fi
}

logged() { log_since "$start_mark" | grep -q 'INTEGRITY AEAD ERROR'; }

# audited: print devices and sectors of the audit records. audited RECORDS: compare them.
audited() {
	local found

	found=$(log_since "$start_mark" |
		sed -n 's/.*audit: .*module=crypt op=integrity-aead \(dev=[0-9:]* sector=[0-9]*\) .*/\1/p' | sort -u)
	[ $# -gt 0 ] || echo "$found"
	[ $# -eq 0 ] || [ "$found" = "$1" ]
}

# read_at SIZE SKIP COUNT
read_at() { dd if="$MAPPED" bs="$1" skip="$2" count="$3" iflag=direct status=none; }

# read_refused SIZE SKIP: a request with a forged sector.
read_refused() {
	want "reading $1 with a forged sector, number $2" "$EILSEQ" \
		"$(read_at "$1" "$2" 1 2>&1 >/dev/null | grep -oF "$EILSEQ")"
}

requires cmp dd rev python3 target:integrity modes async
EILSEQ=$(strerror EILSEQ)
for_now /proc/sys/kernel/printk_ratelimit 0

for mode in "${MODES[@]}"; do
	for irqmode in 0 1 2; do
		CASES+=("refused $mode $irqmode capi:gcm(aes)-random")
	done
	CASES+=("refused $mode 2 async-gcm")
done
quick_cases "refused default 2 async-gcm" \
	"refused both 1 capi:gcm(aes)-random" "refused both 2 capi:gcm(aes)-random"
run
