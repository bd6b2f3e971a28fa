#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Time each mapping of the drivers that $INPUT/drivers lists, a line each: the module,
# the name of its target, the variant's name. $KINDS are words CIPHER:SECTOR:FLAGS, with
# the cipher aes, library (aes through the driver that is the AES library) or null and
# the flags inline or default; the samples of each are left as
# $RESULTS/CIPHER:SECTOR:FLAGS (tools/bench-native/sectors.c says what they are).

set -e -o pipefail
key=0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff
key+=f0e1d2c3b4a5968778695a4b3c2d1e0f112233445566778899aabbccddeeff00

modprobe brd rd_nr=1 rd_size=4096
while read -r module _; do
	insmod "$INPUT/measured/$module.ko"
done <"$INPUT/drivers"

for kind in $KINDS; do
	IFS=: read -r cipher sector flags <<<"$kind"
	arguments=(rounds="$ROUNDS" sector="$sector")
	case $cipher in
	aes) cipher="aes-xts-plain64 $key"; arguments+=(key="$key") ;;
	library) cipher="capi:xts-aes-lib-plain64 $key"; arguments+=(key="$key") ;;
	null) cipher="capi:ecb(cipher_null)-plain64 -" ;;
	esac
	words=(sector_size:"$sector")
	[ "$flags" = inline ] && words+=(no_read_workqueue no_write_workqueue)
	names=
	while read -r _ target name; do
		dmsetup create "$name" --table "0 8192 $target $cipher 0 /dev/ram0 0 ${#words[@]} ${words[*]}"
		table=$(dmsetup table --showkeys "$name")
		[ "$flags" = default ] || [[ $table = *no_read_workqueue*no_write_workqueue* ]]
		names+=,$name
	done <"$INPUT/drivers"
	echo "$kind"
	insmod "$INPUT/measured/sectors.ko" mapping="${names#,}" "${arguments[@]}"
	cat /proc/sectors >"$RESULTS/$kind"
	rmmod sectors
	while read -r _ _ name; do
		dmsetup remove --retry "$name"
	done <"$INPUT/drivers"
done
