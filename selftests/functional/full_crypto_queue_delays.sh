#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a crypto queue that is full delays reads and writes; it fails none.
# Needs: root, dmsetup, fio, null_blk, cryptd. The queue is full sooner when the
# kernel was booted with cryptd.cryptd_max_cpu_qlen=4.
# Endangers: nothing but devices of its own.
# CPUs: 2
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

MIB=$(full_or_quick 8 2) # of a job

# no_io_fails MODE CIPHER: 2 jobs of 32 requests of 128 sectors each are more
# than any queue takes, cryptd's default of 1000 included.
no_io_fails() {
	io_goes_well "$1" "$2" 64 "irqmode=2 completion_nsec=20000" \
		"--bs=64k --iodepth=32 --numjobs=2 --size=${MIB}M --offset_increment=32M"
}

# no_iv_fails MODE CIPHER: an IV generator that uses the cipher of the data may meet
# the same queue. Each writer has one request there for an IV and one for data.
no_iv_fails() {
	io_goes_well "$1" "$2" 32 "irqmode=2 completion_nsec=20000" \
		"--bs=16k --iodepth=4 --numjobs=8 --size=$((MIB / 2))M --offset_increment=8M"
}

needs fio null_blk modes async

CLAIMS=()
for mode in no_read no_write both; do
	CLAIMS+=("no_io_fails $mode async-xts")
done
# Synchronous by its name, but in an interrupt it may have to use cryptd.
CLAIMS+=("no_io_fails both aes-xts-plain64")
for mode in "${MODES[@]}"; do
	CLAIMS+=("no_iv_fails $mode async-cbc-eboiv")
done
quick_claims "no_iv_fails no_write async-cbc-eboiv" \
	"no_io_fails no_read async-xts" \
	"no_io_fails both aes-xts-plain64"
run_claims
