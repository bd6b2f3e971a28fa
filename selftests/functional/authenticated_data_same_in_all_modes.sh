#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: authenticated data that one mode writes, every mode reads and finds
# authentic, over dm-integrity, also when a full crypto queue interrupts a read.
# Needs: root, dmsetup, null_blk, dm-integrity, cryptd. The queue is full when the
# kernel was booted with cryptd.cryptd_max_cpu_qlen=4.
# Endangers: nothing but devices of its own.
# CPUs: 1

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"
. "$here/regions.sh"

# same_data CIPHER KEY_BYTES TAG_BYTES SECTOR_BYTES
same_data() {
	local arguments=("integrity:$3:aead")

	[ "$4" = 512 ] || arguments+=("sector_size:$4")
	null_disk tagged 16 irqmode=2 completion_nsec=10000
	integrity_disk "$DISK" "$3" "$4"
	map_regions "$TAGGED" "$1" "$2" "${arguments[@]}" || return 0
	written_in_each_read_in_all
	no_complaints
}

needs cmp target:integrity null_blk modes async

CLAIMS=()
for sector in 512 4096; do
	CLAIMS+=("same_data capi:gcm(aes)-random 32 28 $sector"
		"same_data capi:authenc(hmac(sha256),xts(aes))-random 96 48 $sector"
		"same_data async-gcm 32 28 $sector")
done
quick_claims "same_data capi:gcm(aes)-random 32 28 4096" \
	"same_data async-gcm 32 28 512"
run_claims
