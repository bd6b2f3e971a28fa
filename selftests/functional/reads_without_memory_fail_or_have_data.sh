#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a read of an authenticated volume without memory fails, or returns what was written"
#
# Linux up to 7.3 completed it twice, without data. The test fails each allocation, until the read
# has reached the disk.
# Requires: root, dmsetup, null_blk, dm-integrity, python3, CONFIG_FAILSLAB; CONFIG_KASAN finds more.
# Risks: none; only allocations of the test fail.
# Guest: emulated

. "$(dirname "$0")/common.sh"

payload_failed() { log_since "$start_mark" | grep bio_integrity_alloc; }

# fails_or_has_data MODE
fails_or_has_data() {
	local said

	null_disk irqmode=1
	tags_over 28
	crypt starved "capi:gcm(aes)-random" ${FLAGS[$1]} integrity:28:aead sector_size:4096
	said=$("$(dirname "$0")/fail_nth.py" "${MAPPED##*/}" read 2>&1)
	want "status of fail_nth.py" 0 $?
	diag "$said"
	want "allocation of the payload failed" success "$(outcome payload_failed)"
}

INJECT=$DEBUGFS/failslab
requires python3 debugfs target:integrity modes
[ -d $INJECT ] && [ -e /proc/thread-self/fail-nth ] || skip "needs CONFIG_FAILSLAB"
inject $INJECT verbose=2 verbose_ratelimit_interval_ms=0

CASES=("fails_or_has_data default" "fails_or_has_data both")
run
