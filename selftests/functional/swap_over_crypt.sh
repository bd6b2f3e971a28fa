#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: swap on a mapping with both flags works under memory pressure: what was
# swapped out comes back, and nothing waits for memory that only a write frees.
# Needs: root, dmsetup, null_blk, mkswap, swapon, perl, a memory cgroup (v2).
# Endangers: other programs may be swapped out to the test's disk for a while: if
# the test is killed by SIGKILL, `swapoff` it by hand.
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

LIMIT=$((24 << 20))
TOUCHED=$(full_or_quick 64 48) # MiB

# Fill memory with a pattern, then look at all of it twice.
# shellcheck disable=SC2016 # perl's variables
HOG='my $n = shift; my @m = map { pack("N", $_) x 262144 } 1..$n;
for my $pass (1, 2) { for (1..$n) { $m[$_-1] eq pack("N", $_) x 262144 or exit 3 } }'

# swapped_memory_comes_back MODE CIPHER IRQMODE
swapped_memory_comes_back() {
	local before swapped

	null_disk swap 160 "irqmode=$3" completion_nsec=10000
	map_flags swap "$2" 64 "$1" || return 0
	want "mkswap" success "$(outcome mkswap "$MAPPED")"
	want "swapon" success "$(outcome swapon -p 100 "$MAPPED")" || return
	defer swapoff "$MAPPED"
	before=$(pages_swapped_out)
	(echo $BASHPID >"$GROUP/cgroup.procs" && exec timeout 600 perl -e "$HOG" "$TOUCHED")
	want "status of the memory's user" 0 $?
	swapped=$(($(pages_swapped_out) - before))
	[ $swapped -le 1000 ] || swapped="more than 1000"
	want "pages swapped out" "more than 1000" "$swapped"
	no_complaints
}

pages_swapped_out() {
	awk '/^pswpout/ { print $2 }' /proc/vmstat
}

needs mkswap swapon perl timeout null_blk modes async
control_group memory
echo $LIMIT >"$GROUP/memory.high" && echo $((LIMIT * 2)) >"$GROUP/memory.max" ||
	broken "no limit"

CLAIMS=("swapped_memory_comes_back both aes-xts-plain64 0"
	"swapped_memory_comes_back both aes-xts-plain64 2"
	"swapped_memory_comes_back both async-xts 2")
quick_claims "swapped_memory_comes_back both aes-xts-plain64 2"
run_claims
