#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a cipher that sleeps decrypts in a worker, or dm-crypt does not use it"
#
# Some drivers read "the request may be queued" as "the caller may sleep". Linux 5.9 and later refuse those
# that allocate memory (CRYPTO_ALG_ALLOCATES_MEMORY); others have names that dm-crypt may know, or are
# asynchronous without being SIMD code of the kernel.
# Requires: root, dmsetup, fio, null_blk, and the module sleeping_cipher, which `make selftest` builds
# next to dm-crypt.
# Risks: none.

. "$(dirname "$0")/common.sh"

# reads_do_not_sleep MODE IRQMODE DRIVER [PARAMETER]...: with a cipher of this name.
reads_do_not_sleep() {
	modprobe sleeping_cipher driver="$3" "${@:4}" || broken "cannot load sleeping_cipher"
	defer rmmod sleeping_cipher
	grep -qx "driver *: $3" /proc/crypto || broken "there is no cipher $3"
	if takes "capi:$3-plain64"; then
		io_succeeds "$1" "capi:$3-plain64" "irqmode=$2 completion_nsec=10000" \
			"--bs=16k --iodepth=16 --size=$(full_or_quick 4 1)M"
	else
		want "message" "Error allocating crypto tfm" \
			"$(log_since "$start_mark" | grep -o -m 1 "Error allocating crypto tfm")"
	fi
}

requires fio modes
modprobe -qn sleeping_cipher || skip "needs the module sleeping_cipher"

for mode in no_read both; do
	for irqmode in 1 2; do
		CASES+=("reads_do_not_sleep $mode $irqmode cbc-sleeping"
			"reads_do_not_sleep $mode $irqmode cbc-paes-s390 kern_driver_only=0"
			"reads_do_not_sleep $mode $irqmode cbc-aes-ux500 kern_driver_only=0 async=1"
			"reads_do_not_sleep $mode $irqmode sahara-cbc-aes kern_driver_only=0 async=1"
			"reads_do_not_sleep $mode $irqmode hisi_sec_cbc(aes) kern_driver_only=0 async=1"
			"reads_do_not_sleep $mode $irqmode n5_cbc(aes) kern_driver_only=0 async=1"
			"reads_do_not_sleep $mode $irqmode pcrypt(cbc(aes-generic)) kern_driver_only=0 async=1")
	done
done
quick_cases "reads_do_not_sleep no_read 2 cbc-sleeping" \
	"reads_do_not_sleep both 1 cbc-paes-s390 kern_driver_only=0" \
	"reads_do_not_sleep no_read 2 sahara-cbc-aes kern_driver_only=0 async=1"
run
