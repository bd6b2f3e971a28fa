#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Time each mapping of the drivers that $INPUT/drivers lists, a line each: the module,
# the name of its target, the variant's name, and the cipher's driver where it has one of
# its own. $KINDS are words CIPHER:SECTOR:FLAGS, with the cipher aes, library (aes, with
# the drivers' own) or null and the flags inline or default; the samples of each are left as
# $RESULTS/CIPHER:SECTOR:FLAGS (tools/bench-native/sectors.c says what they are).

set -e -o pipefail
key=0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff
key+=f0e1d2c3b4a5968778695a4b3c2d1e0f112233445566778899aabbccddeeff00

modprobe brd rd_nr=1 rd_size=4096
while read -r module _; do
	insmod "$INPUT/measured/$module.ko"
done <"$INPUT/drivers"

# run_with KEY ROUNDS: the mappings of $kind with that key; what is measured is left in /proc/sectors.
run_with() {
	local names="" target name own given specified="aes-xts-plain64 $1" table
	local words=(sector_size:"$sector") arguments=(rounds="$2" sector="$sector" key="$1")

	[ "$flags" = default ] || words+=(no_read_workqueue no_write_workqueue)
	if [ "$cipher" = null ]; then
		specified="capi:ecb(cipher_null)-plain64 -"
		arguments=(rounds="$2" sector="$sector")
	fi
	while read -r _ target name own; do
		given=$specified
		[ "$cipher" != library ] || [ -z "$own" ] || given="capi:$own-plain64 $1"
		dmsetup create "$name" --table "0 8192 $target $given 0 /dev/ram0 0 ${#words[@]} ${words[*]}"
		table=$(dmsetup table --showkeys "$name")
		[ "$flags" = default ] || [[ $table = *no_read_workqueue*no_write_workqueue* ]]
		names+=,$name
	done <"$INPUT/drivers"
	insmod "$INPUT/measured/sectors.ko" mapping="${names#,}" "${arguments[@]}"
}

end_run() {
	local name

	rmmod sectors
	while read -r _ _ name _; do
		dmsetup remove --retry "$name"
	done <"$INPUT/drivers"
}

for kind in $KINDS; do
	IFS=: read -r cipher sector flags <<<"$kind"
	echo "$kind"
	# With keys of other lengths the data are only compared.
	for digits in 64 96; do
		[ "$cipher" != null ] || break
		run_with "${key:0:digits}" 0
		end_run
	done
	run_with "$key" "$ROUNDS"
	cat /proc/sectors >"$RESULTS/$kind"
	end_run
done
