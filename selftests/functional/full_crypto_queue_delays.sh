#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a full crypto queue delays reads and writes, and fails none"
#
# The first posting of the flags, in 2020, failed them. The IV generator eboiv of Linux up to 7.3 does.
# Requires: root, dmsetup, fio, null_blk, cryptd. The parameter cryptd.cryptd_max_cpu_qlen=4 fills the queue sooner.
# Risks: none.
# CPUs: 2
# Guest: emulated

. "$(dirname "$0")/common.sh"

MIB=$(full_or_quick 8 2) # of a job

# no_io_fails MODE CIPHER: 2 jobs of 32 requests of 128 sectors are more than cryptd takes by default (1000).
no_io_fails() {
	io_succeeds "$1" "$2" "irqmode=2 completion_nsec=20000" \
		"--bs=64k --iodepth=32 --numjobs=2 --size=${MIB}M --offset_increment=32M"
}

# no_iv_fails MODE CIPHER: an IV generator that uses the cipher of the data meets the same queue, which
# a mapping without flags keeps full.
no_iv_fails() {
	null_disk size=32 irqmode=2 completion_nsec=20000
	crypt full async-xts
	fio --name=full --filename="$MAPPED" --direct=1 --ioengine=libaio --rw=randwrite --bs=64k \
		--iodepth=4 --thread --time_based --runtime=1000 >/dev/null 2>&1 &
	begun_io "$MAPPED" $!
	io_succeeds "$1" "$2" "irqmode=2 completion_nsec=20000" \
		"--bs=16k --iodepth=4 --numjobs=8 --size=$((MIB * 128))k --offset_increment=8M"
	kill -INT $! || fail "the I/O that keeps the queue full ended by itself"
	wait $!
}

requires fio modes async

# aes-xts-plain64 is synchronous by its name, but in an interrupt it may have to use cryptd.
CASES=("no_io_fails "{no_read,no_write,both}" async-xts" "no_io_fails both aes-xts-plain64"
	"no_iv_fails "{default,no_read,no_write,both}" async-cbc-eboiv")
quick_cases "no_iv_fails default async-cbc-eboiv" "no_io_fails "{no_read,both}" async-xts" \
	"no_io_fails both aes-xts-plain64"
run
