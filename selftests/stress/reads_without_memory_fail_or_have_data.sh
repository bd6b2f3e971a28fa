#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a read of an authenticated volume that gets no memory where it is submitted fails or
# returns what was written; it does not succeed without data, nor complete twice.
# Needs: root, dmsetup, null_blk, dm-integrity, python3, CONFIG_FAILSLAB; CONFIG_KASAN makes
# it certain.
# Endangers: allocations fail for the task of the test alone.
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

BUDGET=1000000 # failures, more than there will be
READS=$(full_or_quick 2000 300)

# reads_go_wrong: which direct reads neither failed nor brought the data, by a task whose
# allocations fail while it reads. The last line tells how many came to an end.
reads_go_wrong() {
	python3 - "$MAPPED" "$DATA" "$READS" <<-'END'
		import mmap, os, sys
		data = open(sys.argv[2], "rb").read()
		file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
		fail = os.open("/proc/self/make-it-fail", os.O_WRONLY)
		page = mmap.mmap(-1, 4096)
		for number in range(int(sys.argv[3])):
		    offset = 4096 * (number % (len(data) // 4096))
		    page[:] = bytes(4096)
		    os.pwrite(fail, b"1", 0)
		    try:
		        os.preadv(file, [page], offset)
		    except OSError:
		        continue
		    finally:
		        os.pwrite(fail, b"0", 0)
		    if page[:] != data[offset : offset + 4096]:
		        print("no data at", offset)
		print("read")
	END
}

# fails_or_has_data MODE
fails_or_has_data() {
	null_disk starved 16 irqmode=1
	integrity_disk "$DISK" 28 4096
	DISK=$TAGGED
	map starved "$(crypt_table "$DISK" "capi:gcm(aes)-random" "$(key 32)" ${FLAGS[$1]} \
		integrity:28:aead sector_size:4096)" || return 0
	DATA=$(mktemp) || broken "mktemp failed"
	defer rm "$DATA"
	head -c 256k /dev/urandom >"$DATA"
	dd if="$DATA" of="$MAPPED" bs=64k oflag=direct status=none || broken "cannot write"
	defer sh -c "echo 0 >$INJECT/probability"
	echo Y >$INJECT/task-filter
	echo N >$INJECT/ignore-gfp-wait
	echo 0 >$INJECT/verbose
	echo 1 >$INJECT/interval
	echo $BUDGET >$INJECT/times
	echo 30 >$INJECT/probability
	want "reads" read "$(reads_go_wrong | sort | uniq -c | sort -rn | awk '{ $1 = ""; print substr($0, 2) }')"
	undo_last
	want "an allocation failed" success "$(outcome [ "$(cat $INJECT/times)" -lt $BUDGET ])"
	no_complaints
}

INJECT=$DEBUGFS/failslab
needs dd python3 debugfs target:integrity null_blk modes
[ -d $INJECT ] && [ -e /proc/self/make-it-fail ] || skip_all "needs CONFIG_FAILSLAB"

CLAIMS=("fails_or_has_data default" "fails_or_has_data both")
run_claims
