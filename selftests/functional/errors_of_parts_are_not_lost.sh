#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a request fails when a part of it does, also when that part is the last to complete
# and does so while the request's owner lets go of it.
# Needs: root, dmsetup, fio, null_blk, dm-integrity, cryptd. Two CPUs or preemption to meet it.
# Endangers: nothing but devices of its own.
# Provokes: INTEGRITY AEAD ERROR
# Guest: emulated
# CPUs: 2

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

READS=$(full_or_quick 8192 2048) # each 4k, no tag is right where nothing was written

# every_wrong_tag_is_told MODE SECTOR_BYTES
every_wrong_tag_is_told() {
	null_disk unwritten 64 irqmode=2 completion_nsec=10000
	integrity_disk "$DISK" 28 "$2"
	DISK=$TAGGED
	map unwritten "$(crypt_table "$DISK" async-gcm "$(key 32)" ${FLAGS[$1]} integrity:28:aead \
		"sector_size:$2")" || return 0
	want "reads that failed" "$READS" "$(fio --name=parts --filename="$MAPPED" --direct=1 \
		--ioengine=libaio --rw=randread --bs=4k --iodepth=16 --numjobs=2 --group_reporting \
		--size=32M "--io_size=$((READS * 2))k" --continue_on_error=all --output-format=json \
		2>/dev/null | awk -F '[:,]' '/"total_err"/ { print $2 + 0 }')"
	no_complaints "INTEGRITY AEAD"
}

needs fio target:integrity null_blk modes async
RATELIMIT=/proc/sys/kernel/printk_ratelimit_burst
defer sh -c "echo $(cat $RATELIMIT) >$RATELIMIT"
echo 1 >$RATELIMIT

CLAIMS=("every_wrong_tag_is_told default 4096" "every_wrong_tag_is_told default 512"
	"every_wrong_tag_is_told both 4096" "every_wrong_tag_is_told both 512")
quick_claims "every_wrong_tag_is_told default 4096" "every_wrong_tag_is_told both 512"
run_claims
