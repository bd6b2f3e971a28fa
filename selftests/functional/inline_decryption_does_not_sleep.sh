#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="inline decryption and the IV generators of BitLocker do not sleep in softirq or under RCU"
#
# Linux 5.9 allocated memory and waited for a full crypto queue there (fixed by commits d68b29584c25
# and 8abec36d1274); eboiv allocated up to 7.3. A disk without a queue of its own may complete requests while they
# are being submitted, under the RCU read lock: Linux 7.3 sleeps there.
# Requires: root, dmsetup, dd, fio, null_blk, cryptd; CONFIG_DEBUG_ATOMIC_SLEEP or CONFIG_PROVE_RCU finds more.
# The crypto queue is full sooner when the kernel was booted with cryptd.cryptd_max_cpu_qlen=4.
# Risks: none.
# Guest: emulated

. "$(dirname "$0")/common.sh"

# reads_do_not_sleep IRQMODE MODE CIPHER: many crypto requests for an I/O, some of them in a full queue.
reads_do_not_sleep() {
	io_succeeds "$2" "$3" "irqmode=$1 completion_nsec=10000" \
		"--bsrange=4k-64k --bs_unaligned=0 --iodepth=32 --size=$(full_or_quick 8 2)M"
}

# iv_does_not_sleep IRQMODE MODE CIPHER: elephant also has a step after decryption.
iv_does_not_sleep() {
	io_succeeds "$2" "$3" "irqmode=$1 completion_nsec=10000" \
		"--bs=16k --iodepth=16 --size=$(full_or_quick 4 1)M"
}

# nothing_sleeps_under_rcu MODE CIPHER: of a disk without memory, as one that has
# memory may sleep and so is called without that lock. It reads as zeroes or garbage.
nothing_sleeps_under_rcu() {
	null_disk size=64 irqmode=0 memory_backed=0
	crypt immediate "$2" ${FLAGS[$1]}
	want "message of reading" "" \
		"$(dd if="$MAPPED" of=/dev/null bs=1M count=16 iflag=direct status=none 2>&1)"
}

requires dd fio modes async

CASES=("iv_does_not_sleep 2 default async-cbc-elephant")
for irqmode in 1 2; do
	CASES+=("reads_do_not_sleep $irqmode no_read aes-xts-plain64"
		"reads_do_not_sleep $irqmode no_read async-xts"
		"reads_do_not_sleep $irqmode no_read aes-cbc-essiv:sha256"
		"iv_does_not_sleep $irqmode no_read aes-cbc-eboiv"
		"iv_does_not_sleep $irqmode both aes-cbc-elephant"
		"iv_does_not_sleep $irqmode both async-cbc-elephant")
done
for cipher in async-xts aes-xts-plain64 aes-cbc-eboiv async-cbc-elephant; do
	CASES+=("nothing_sleeps_under_rcu no_read $cipher")
done
CASES+=("nothing_sleeps_under_rcu both async-xts")
quick_cases "reads_do_not_sleep 1 no_read aes-cbc-essiv:sha256" \
	"reads_do_not_sleep 2 no_read aes-xts-plain64" "reads_do_not_sleep 2 no_read async-xts" \
	"iv_does_not_sleep 2 no_read aes-cbc-eboiv" "iv_does_not_sleep 1 both aes-cbc-elephant" \
	"iv_does_not_sleep 2 both async-cbc-elephant" \
	"nothing_sleeps_under_rcu no_read async-xts" "nothing_sleeps_under_rcu no_read aes-cbc-eboiv"
run
