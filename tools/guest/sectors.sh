#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Time a mapping of each driver in $INPUT/drivers. A line there has the module, the name of its target, the
# variant's name and perhaps the specification of aes-xts that only this variant uses; other ciphers leave it out.
# $KINDS are words CIPHER:SECTOR:FLAGS. The cipher is aes, essiv, adiantum, serpent or null. The flags are default,
# read, write or inline, or several of these with a + between; then the names of the mappings end in them. $LOAD are
# parameters of tools/bench-native/sectors.c, which also describes the samples. Those of each kind go to
# $RESULTS/CIPHER:SECTOR:FLAGS. With $VERITY dm-verity is timed, too.

set -e -o pipefail
key=0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff
key+=f0e1d2c3b4a5968778695a4b3c2d1e0f112233445566778899aabbccddeeff00

# The library's own tests, if the kernel has them, run with the instructions that are measured.
if modprobe -q -n aes_xts_kunit; then
	mount -t debugfs none /sys/kernel/debug 2>/dev/null || mountpoint -q /sys/kernel/debug
	modprobe kunit enable=1 autorun=1
	modprobe aes_xts_kunit
	tail -n 2 /sys/kernel/debug/kunit/aes_xts/results
	grep -q '^# Totals: pass:[1-9][0-9]* fail:0 skip:0' /sys/kernel/debug/kunit/aes_xts/results
fi

# A kernel with block cgroups measures in a child of the root.
if mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null; then
	echo +io >/sys/fs/cgroup/cgroup.subtree_control
	mkdir /sys/fs/cgroup/child
	echo $$ >/sys/fs/cgroup/child/cgroup.procs
fi

disk=/dev/ram0
if modprobe -q null_blk gb=1 submit_queues=1 irqmode=1 memory_backed=1; then
	disk=/dev/nullb0
else
	modprobe brd rd_nr=2 rd_size=65536
fi
cut -d' ' -f1 "$INPUT/drivers" | sort -u | while read -r module; do
	insmod "$INPUT/measured/$module.ko"
done

# run_with KEY ROUNDS: create the mappings of $kind with that key and measure them; /proc/sectors has the samples.
run_with() {
	local target name own given specified="aes-xts-plain64 $1" flag wanted mapping words found
	local arguments=(rounds="$2" sector="$sector" disk="$disk")

	case $cipher in
	null) specified="capi:ecb(cipher_null)-plain64 -" ;;
	serpent) specified="serpent-xts-plain64 $1" arguments+=(key="$1" cipher="xts(serpent)") ;;
	essiv) specified="aes-cbc-essiv:sha256 $1" arguments+=(key="$1" cipher="essiv(cbc(aes),sha256)") ;;
	adiantum) specified="xchacha12,aes-adiantum-plain64 $1" arguments+=(key="$1" cipher="adiantum(xchacha12,aes)") ;;
	*) arguments+=(key="$1") ;;
	esac
	dmsetup create linear --table "0 131072 linear $disk 0"
	names=,linear
	if [ -n "$VERITY" ]; then
		given=$(veritysetup format --data-blocks 1024 --hash-offset $((1024 * 4096)) /dev/ram1 /dev/ram1)
		veritysetup open --hash-offset $((1024 * 4096)) /dev/ram1 verity /dev/ram1 "${given##*[[:space:]]}"
		names+=,verity
	fi
	while read -r _ target name own; do
		given=${own:+$own $1}
		given=${given:-$specified}
		[ -z "$own" ] || [ "$cipher" = aes ] || continue
		for flag in ${flags//+/ }; do
			case $flag in
			default) wanted="" ;;
			inline) wanted="no_read_workqueue no_write_workqueue" ;;
			*) wanted=no_${flag}_workqueue ;;
			esac
			mapping=$name
			[ "$flag" = "$flags" ] || mapping+=:$flag
			read -ra words <<<"$wanted sector_size:$sector"
			dmsetup create "$mapping" --table "0 131072 $target $given 0 $disk 0 ${#words[@]} ${words[*]}"
			found=$(dmsetup table "$mapping" | grep -o 'no_[a-z]*_workqueue' || true)
			[ "${found//$'\n'/ }" = "$wanted" ]
			names+=,$mapping
		done
	done <"$INPUT/drivers"
	read -ra words <<<"$LOAD"
	insmod "$INPUT/measured/sectors.ko" mapping="${names#,}" "${arguments[@]}" "${words[@]}"
}

end_run() {
	local name

	rmmod sectors
	for name in ${names//,/ }; do
		dmsetup remove --retry "$name"
	done
}

for kind in $KINDS; do
	IFS=: read -r cipher sector flags <<<"$kind"
	echo "$kind"
	digits=128
	case $cipher in
	essiv | adiantum) digits=64 ;;
	aes | serpent) # With keys of other lengths, compare the data only.
		for shorter in 64 96; do
			run_with "${key:0:shorter}" 0
			end_run
		done
		;;
	esac
	run_with "${key:0:digits}" "$ROUNDS"
	cat /proc/sectors >"$RESULTS/$kind"
	end_run
done
