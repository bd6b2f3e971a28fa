#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a request fails when its last part fails while its owner drops the last reference"
#
# dm-crypt read the error too early (fixed in Linux 7.3 by commit 148845aa1921).
# Requires: root, dmsetup, fio, null_blk, dm-integrity, cryptd, and two CPUs or preemption.
# Risks: none.
# Provokes: INTEGRITY AEAD ERROR
# Guest: emulated
# CPUs: 2

. "$(dirname "$0")/common.sh"

READS=$(full_or_quick 8192 2048) # each 4k, no tag is right where nothing was written

# every_wrong_tag_fails MODE SECTOR_BYTES
every_wrong_tag_fails() {
	null_disk size=64 completion_nsec=10000
	tags_over 28 "$2"
	crypt unwritten async-gcm ${FLAGS[$1]} integrity:28:aead "sector_size:$2"
	want "reads that failed" "$READS" "$(failed_requests randread 32 --bs=4k --iodepth=16 \
		--numjobs=2 "--io_size=$((READS * 2))k")"
}

requires fio target:integrity modes async
for_now /proc/sys/kernel/printk_ratelimit_burst 1

CASES=("every_wrong_tag_fails default 4096" "every_wrong_tag_fails default 512"
	"every_wrong_tag_fails both 4096" "every_wrong_tag_fails both 512")
quick_cases "every_wrong_tag_fails default 4096" "every_wrong_tag_fails both 512"
run
