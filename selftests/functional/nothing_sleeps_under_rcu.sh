#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a read that is completed in task context, but under the RCU read lock, is
# not decrypted there in a way that sleeps: a disk without a queue of its own may
# complete requests while they are being submitted.
# Needs: root, dmsetup, dd, null_blk, cryptd; CONFIG_DEBUG_ATOMIC_SLEEP or
# CONFIG_PROVE_RCU makes it certain. The crypto queue is full sooner when the kernel
# was booted with cryptd.cryptd_max_cpu_qlen=4.
# Endangers: nothing but devices of its own.
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# reads_do_not_sleep MODE CIPHER KEY_BYTES: of a disk without memory, as one that has
# memory may sleep and so is called without that lock. It reads as zeroes or garbage.
reads_do_not_sleep() {
	null_disk immediate 64 irqmode=0 memory_backed=0
	map_flags immediate "$2" "$3" "$1" || return 0
	want "message of reading" "" \
		"$(dd if="$MAPPED" of=/dev/null bs=1M count=16 iflag=direct status=none 2>&1)"
	no_complaints
}

needs dd null_blk modes async

CLAIMS=("reads_do_not_sleep no_read async-xts 64"
	"reads_do_not_sleep both async-xts 64"
	"reads_do_not_sleep no_read aes-xts-plain64 64"
	"reads_do_not_sleep no_read aes-cbc-eboiv 32"
	"reads_do_not_sleep no_read async-cbc-elephant 64")
quick_claims "reads_do_not_sleep no_read async-xts 64" \
	"reads_do_not_sleep no_read aes-cbc-eboiv 32"
run_claims
