#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="swap on a mapping with both flags returns its data under memory pressure, and never hangs"
#
# Requires: root, dmsetup, null_blk, mkswap, swapon, perl, a memory cgroup (v2).
# Risks: other programs may be swapped out to the test's disk for a while: if the test is killed by
# SIGKILL, `swapoff` it by hand.
# Guest: emulated

. "$(dirname "$0")/common.sh"

LIMIT=$((24 << 20))
TOUCHED=$(full_or_quick 64 48) # MiB

# Fill memory with a pattern, then check all of it twice.
# shellcheck disable=SC2016 # perl's variables
HOG='my $n = shift; my @m = map { pack("N", $_) x 262144 } 1..$n;
for my $pass (1, 2) { for (1..$n) { $m[$_-1] eq pack("N", $_) x 262144 or exit 3 } }'

# swapped_memory_comes_back MODE CIPHER IRQMODE
swapped_memory_comes_back() {
	local before swapped

	null_disk size=160 "irqmode=$3" completion_nsec=10000
	crypt swap "$2" ${FLAGS[$1]}
	mkswap "$MAPPED" >/dev/null || fail "mkswap fails"
	swapon -p 100 "$MAPPED" || fail "swapon fails"
	defer swapoff "$MAPPED"
	before=$(pages_swapped_out)
	(echo $BASHPID >"$GROUP/cgroup.procs" && exec timeout 600 perl -e "$HOG" "$TOUCHED")
	want "status of the memory's user" 0 $?
	swapped=$(($(pages_swapped_out) - before))
	[ $swapped -le 1000 ] || swapped="more than 1000"
	want "pages swapped out" "more than 1000" "$swapped"
}

pages_swapped_out() { awk '/^pswpout/ { print $2 }' /proc/vmstat; }

requires mkswap swapon perl timeout modes async
control_group memory
echo $LIMIT >"$GROUP/memory.high" && echo $((LIMIT * 2)) >"$GROUP/memory.max" ||
	broken "no limit"

CASES=("swapped_memory_comes_back both aes-xts-plain64 0"
	"swapped_memory_comes_back both aes-xts-plain64 2"
	"swapped_memory_comes_back both async-xts 2")
quick_cases "swapped_memory_comes_back both aes-xts-plain64 2"
run
