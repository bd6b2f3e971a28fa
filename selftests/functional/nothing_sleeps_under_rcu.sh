#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="inline decryption does not sleep where a task completes a read under the RCU read lock"
#
# A disk without a queue of its own may complete requests while they are being submitted. Linux 7.3
# sleeps there.
# Requires: root, dmsetup, dd, null_blk, cryptd; CONFIG_DEBUG_ATOMIC_SLEEP or CONFIG_PROVE_RCU finds
# more. The crypto queue is full sooner when the kernel was booted with cryptd.cryptd_max_cpu_qlen=4.
# Risks: none.
# Guest: emulated

. "$(dirname "$0")/common.sh"

# reads_do_not_sleep MODE CIPHER: of a disk without memory, as one that has
# memory may sleep and so is called without that lock. It reads as zeroes or garbage.
reads_do_not_sleep() {
	null_disk size=64 irqmode=0 memory_backed=0
	crypt immediate "$2" ${FLAGS[$1]}
	want "message of reading" "" \
		"$(dd if="$MAPPED" of=/dev/null bs=1M count=16 iflag=direct status=none 2>&1)"
}

requires dd modes async

CASES=("reads_do_not_sleep no_read async-xts" "reads_do_not_sleep both async-xts"
	"reads_do_not_sleep no_read aes-xts-plain64" "reads_do_not_sleep no_read aes-cbc-eboiv"
	"reads_do_not_sleep no_read async-cbc-elephant")
quick_cases "reads_do_not_sleep no_read async-xts" "reads_do_not_sleep no_read aes-cbc-eboiv"
run
