#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a full crypto queue delays reads and writes, and fails none"
#
# The first posting of the flags, in 2020, failed them. The IV generator eboiv of Linux up to 7.3 does.
# Requires: root, dmsetup, fio, null_blk, cryptd. The queue is full sooner when the kernel was booted
# with cryptd.cryptd_max_cpu_qlen=4.
# Risks: none.
# CPUs: 2
# Guest: emulated

. "$(dirname "$0")/common.sh"

MIB=$(full_or_quick 8 2) # of a job

# no_io_fails MODE CIPHER: 2 jobs of 32 requests of 128 sectors each are more
# than any queue takes, cryptd's default of 1000 included.
no_io_fails() {
	io_succeeds "$1" "$2" "irqmode=2 completion_nsec=20000" \
		"--bs=64k --iodepth=32 --numjobs=2 --size=${MIB}M --offset_increment=32M"
}

# no_iv_fails MODE CIPHER: an IV generator that uses the cipher of the data may meet
# the same queue. Each writer has one request there for an IV and one for data.
no_iv_fails() {
	io_succeeds "$1" "$2" "irqmode=2 completion_nsec=20000" \
		"--bs=16k --iodepth=4 --numjobs=8 --size=$((MIB / 2))M --offset_increment=8M"
}

requires fio modes async

for mode in no_read no_write both; do
	CASES+=("no_io_fails $mode async-xts")
done
# Synchronous by its name, but in an interrupt it may have to use cryptd.
CASES+=("no_io_fails both aes-xts-plain64")
for mode in "${MODES[@]}"; do
	CASES+=("no_iv_fails $mode async-cbc-eboiv")
done
quick_cases "no_iv_fails no_write async-cbc-eboiv" "no_io_fails no_read async-xts" \
	"no_io_fails both aes-xts-plain64"
run
