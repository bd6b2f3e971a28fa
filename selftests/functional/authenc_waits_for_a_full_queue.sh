#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a full queue of a part of authenc() delays reads and writes, and fails or stops none"
#
# authenc() over asynchronous parts hung, or failed the request (fixed in Linux 6.18).
# Requires: root, dmsetup, fio, null_blk, dm-integrity, cryptd. The queue is full sooner when the kernel
# was booted with cryptd.cryptd_max_cpu_qlen=4.
# Risks: where requests hang, they and their devices stay until the next boot.

. "$(dirname "$0")/common.sh"

PATIENCE=20 # s without a completion

# no_io_fails MODE [TEMPLATE]: 2 jobs of 32 requests of 16 sectors each; TEMPLATE is for the hash.
no_io_fails() {
	local cipher=${CIPHERS[async-xts]#capi:} hash=${2:+$2(}$hmac${2:+)}

	null_disk size=64 completion_nsec=20000
	tags_over 32 4096
	crypt tagged "capi:authenc($hash,${cipher%-*})-plain64" ${FLAGS[$1]} integrity:32:aead sector_size:4096
	going_io $PATIENCE "$1" "$MAPPED" --rw=randwrite --bs=64k --iodepth=32 --numjobs=2 --size=4M \
		--offset_increment=16M
}

requires fio target:integrity modes async
needs_cipher async-xts
KEY=$(key_of cbc)$(key_of xts)
takes "capi:authenc(hmac(sha256),xts(aes))-plain64" integrity:32:aead # loads the hash
hmac=$(sync_driver "hmac(sha256)")
[ -n "$hmac" ] || broken "no synchronous driver of hmac(sha256) found"

for mode in default both; do
	CASES+=("no_io_fails $mode" "no_io_fails $mode cryptd")
done
quick_cases "no_io_fails default" "no_io_fails both cryptd"
run
