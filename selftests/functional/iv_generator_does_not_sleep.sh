#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: the IV generators that encrypt (eboiv, elephant: BitLocker volumes) do
# not sleep where no_read_workqueue decrypts, nor does elephant's step after
# decryption, also where an asynchronous cipher completes.
# Needs: root, dmsetup, fio, null_blk; CONFIG_DEBUG_ATOMIC_SLEEP makes it certain.
# Endangers: nothing but devices of its own.
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# iv_does_not_sleep IRQMODE MODE CIPHER KEY_BYTES
iv_does_not_sleep() {
	io_goes_well "$2" "$3" "$4" "irqmode=$1 completion_nsec=10000" \
		"--bs=16k --iodepth=16 --size=$(full_or_quick 4 1)M"
}

needs fio null_blk modes async

CLAIMS=("iv_does_not_sleep 2 default async-cbc-elephant 64")
for irqmode in 1 2; do
	CLAIMS+=("iv_does_not_sleep $irqmode no_read aes-cbc-eboiv 32"
		"iv_does_not_sleep $irqmode both aes-cbc-elephant 64"
		"iv_does_not_sleep $irqmode both async-cbc-elephant 64")
done
quick_claims "iv_does_not_sleep 2 no_read aes-cbc-eboiv 32" \
	"iv_does_not_sleep 1 both aes-cbc-elephant 64" \
	"iv_does_not_sleep 2 both async-cbc-elephant 64"
run_claims
