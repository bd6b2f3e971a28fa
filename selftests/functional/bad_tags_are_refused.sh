#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a sector whose authentication tag is wrong is refused in every mode, on
# disks that complete in softirq and hard interrupt context too, where telling
# about it must not sleep; the sectors beside it are read. Where the device mapper's
# events are audited, this one is, with its sector.
# Needs: root, dmsetup, null_blk, dm-integrity; CONFIG_DEBUG_ATOMIC_SLEEP makes it
# certain. The audit needs CONFIG_DM_AUDIT and no audit daemon.
# Endangers: nothing but devices of its own.
# Kernel arguments: audit=1
# Provokes: INTEGRITY AEAD ERROR
# CPUs: 1
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

FAR=512 # a sector

# refused MODE IRQMODE CIPHER: the second 4k, and those of number FAR, have been written with
# another key.
refused() {
	local data records CIPHER=$3

	null_disk forged 16 "irqmode=$2" completion_nsec=10000
	integrity_disk "$DISK" 28 4096
	data=$(mktemp) || broken "mktemp failed"
	defer rm "$data"
	head -c $(((FAR + 4) * 4))k /dev/urandom >"$data"
	tagged_map forged "$(key 32)" "${FLAGS[$1]}" || return 0
	dd if="$data" of="$MAPPED" bs=16k oflag=direct status=none || broken "cannot write"
	tagged_map forger "$(key 32 | rev)" ""
	dd if="$data" of="$MAPPED" bs=4k seek=1 count=1 oflag=direct status=none &&
		dd if="$data" of="$MAPPED" bs=4k seek=$FAR count=1 oflag=direct status=none ||
		broken "cannot forge"
	undo_last
	MAPPED=/dev/mapper/$PREFIX-forged
	read_refused 4k 1
	read_refused 16k 0
	read_refused 4k $FAR
	read_refused 16k $((FAR / 4))
	want "reading before the first" "" "$(read_at 4k 0 1 | cmp - <(head -c 4k "$data") 2>&1)"
	want "reading between them" "" \
		"$(read_at 4k 2 $((FAR - 2)) | cmp - <(tail -c +8193 "$data" | head -c $(((FAR - 2) * 4))k) 2>&1)"
	want "reading after the last" "" \
		"$(read_at 4k $((FAR + 1)) 3 | cmp - <(tail -c 12k "$data") 2>&1)"
	want "told about it" success "$(outcome soon told)"
	if log_since_mark | grep -q "audit: .*module=crypt op=ctr"; then
		records=$(printf "dev=$(numbers_of "$TAGGED") sector=%s\n" $((FAR * 8)) 8)
		soon audited "$records"
		want "audited" "$records" "$(audited)"
	fi
	no_complaints "INTEGRITY AEAD"
}

told() { log_since_mark | grep -q 'INTEGRITY AEAD ERROR'; }

# audited [RECORDS]: of which device and sectors there are records, or whether it is these.
audited() {
	local found

	found=$(log_since_mark |
		sed -n 's/.*audit: .*module=crypt op=integrity-aead \(dev=[0-9:]* sector=[0-9]*\) .*/\1/p' | sort -u)
	[ $# -gt 0 ] || echo "$found"
	[ $# -eq 0 ] || [ "$found" = "$1" ]
}

# soon COMMAND...: within two seconds. Reports come after the read, audit records from a thread.
soon() {
	local try

	for ((try = 0; try < 20; try++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}

# tagged_map NAME KEY FLAGS
tagged_map() {
	# The flags are words.
	map "$1" "$(crypt_table "$TAGGED" "$CIPHER" "$2" integrity:28:aead sector_size:4096 $3)"
}

# read_at SIZE SKIP COUNT
read_at() {
	dd if="$MAPPED" bs="$1" skip="$2" count="$3" iflag=direct status=none
}

# read_refused SIZE SKIP: a request over a forged sector.
read_refused() {
	want "reading $1 with a forged sector, number $2" "$(strerror EILSEQ)" \
		"$(read_at "$1" "$2" 1 2>&1 >/dev/null | grep -oF "$(strerror EILSEQ)")"
}

needs cmp dd rev python3 target:integrity null_blk modes async
RATELIMIT=/proc/sys/kernel/printk_ratelimit
defer sh -c "echo $(cat $RATELIMIT) >$RATELIMIT"
echo 0 >$RATELIMIT

CLAIMS=()
for irqmode in 0 1 2; do
	for mode in "${MODES[@]}"; do
		CLAIMS+=("refused $mode $irqmode capi:gcm(aes)-random")
	done
done
for mode in "${MODES[@]}"; do
	CLAIMS+=("refused $mode 2 async-gcm")
done
quick_claims "refused default 2 async-gcm" \
	"refused both 1 capi:gcm(aes)-random" \
	"refused both 2 capi:gcm(aes)-random"
run_claims
