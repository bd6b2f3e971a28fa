#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: decryption in the completion's context never sleeps there: many requests
# an I/O, backlogged ones among them, on disks that complete in softirq and in
# hard interrupt context.
# Needs: root, dmsetup, fio, null_blk; CONFIG_DEBUG_ATOMIC_SLEEP makes it certain.
# Endangers: nothing but devices of its own.
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# reads_do_not_sleep IRQMODE MODE CIPHER KEY_BYTES
reads_do_not_sleep() {
	io_goes_well "$2" "$3" "$4" "irqmode=$1 completion_nsec=10000" \
		"--bsrange=4k-64k --bs_unaligned=0 --iodepth=32 --size=$(full_or_quick 8 2)M"
}

needs fio null_blk modes async

CLAIMS=()
for irqmode in 1 2; do
	CLAIMS+=("reads_do_not_sleep $irqmode no_read aes-xts-plain64 64"
		"reads_do_not_sleep $irqmode no_read async-xts 64"
		"reads_do_not_sleep $irqmode no_read aes-cbc-essiv:sha256 32")
done
quick_claims "reads_do_not_sleep 1 no_read aes-cbc-essiv:sha256 32" \
	"reads_do_not_sleep 2 no_read aes-xts-plain64 64" \
	"reads_do_not_sleep 2 no_read async-xts 64"
run_claims
