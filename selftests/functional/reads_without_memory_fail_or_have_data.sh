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

MOST=100 # allocations, more than a read has

# read_without N: a direct read of 4k by a task whose Nth allocation fails.
read_without() {
	python3 - "$MAPPED" "$DATA" "$1" <<-'END'
		import mmap, os, sys
		data = open(sys.argv[2], "rb").read()
		file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
		fail = os.open("/proc/thread-self/fail-nth", os.O_RDWR)
		page = mmap.mmap(-1, 4096)
		page[:] = bytes(4096)
		os.pwrite(fail, sys.argv[3].encode(), 0)
		try:
		    os.preadv(file, [page], 0)
		    found = "data" if page[:] == data else "read, but there are no data"
		except OSError:
		    found = "error"
		left = os.pread(fail, 16, 0)
		os.pwrite(fail, b"0", 0)
		if left.strip(b"\0\n") != b"0":  # the read has fewer allocations: it must have its data
		    print("nothing failed" if found == "data" else f"{found}, and no allocation failed")
		else:
		    print("right" if found in ("data", "error") else found)
	END
}

payload_failed() { log_since "$start_mark" | grep bio_integrity_alloc; }

# fails_or_has_data MODE
fails_or_has_data() {
	local nth found

	null_disk irqmode=1
	tags_over 28
	crypt starved "capi:gcm(aes)-random" ${FLAGS[$1]} integrity:28:aead sector_size:4096
	random_data 4k
	dd if="$DATA" of="$MAPPED" bs=4k oflag=direct status=none || broken "cannot write"
	for ((nth = 1; nth <= MOST; nth++)); do
		found=$(read_without $nth)
		[ "$found" != "nothing failed" ] || break
		want "reading without allocation $nth" right "$found" || break
	done
	diag "allocations that failed: $((nth - 1))"
	want "allocation of the payload failed" success "$(outcome payload_failed)"
}

INJECT=$DEBUGFS/failslab
requires dd python3 debugfs target:integrity modes
[ -d $INJECT ] && [ -e /proc/thread-self/fail-nth ] || skip "needs CONFIG_FAILSLAB"
inject $INJECT verbose=2 verbose_ratelimit_interval_ms=0

CASES=("fails_or_has_data default" "fails_or_has_data both")
run
