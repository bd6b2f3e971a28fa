#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: requests that fail give back what was allocated for them.
# Needs: root, dmsetup, fio, null_blk and dm-flakey; kmemleak for its claim.
# Endangers: nothing but devices of its own.
# Kernel arguments: kmemleak=on
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"
. "$here/failing.sh"

# Of requests that fail. Twice as much has to fit in the pages that dm-crypt allows
# itself, 2 % of the memory: where none comes back, it would wait for them for good.
MIB=12

# nothing_is_kept CIPHER: half of what was allocated for failed writes would be seen.
nothing_is_kept() {
	local before kept limit=$((MIB * 512)) memory

	memory=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
	if [ $((memory * 2 / 100)) -lt $((2 * MIB * 1024)) ]; then
		skip "needs $((MIB * 100)) MiB of memory"
		return
	fi
	null_disk leaking $MIB irqmode=2 completion_nsec=10000
	below failing-disk flakey "$DISK" 0 0 3600
	map_flags leaking "$1" 64 both || return 0
	failed_requests write $MIB >/dev/null
	before=$(kib_in_use)
	want "requests that failed" $((MIB * 16)) "$(failed_requests write $MIB)"
	kept=$(($(kib_in_use) - before))
	[ $kept -ge $limit ] || kept="below $limit"
	want "KiB kept" "below $limit" "$kept"
}

# Memory that nobody could give back.
kib_in_use() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemTotal:/ { s += $2 }
		/^(MemFree|Cached|Buffers|SReclaimable):/ { s -= $2 }
		END { print s }' /proc/meminfo
}

# kmemleak_finds_nothing CIPHER: what failed requests left unreferenced.
kmemleak_finds_nothing() {
	local leaks=$DEBUGFS/kmemleak

	mountpoint -q $DEBUGFS || mount -t debugfs none $DEBUGFS 2>/dev/null
	# What is so anyway, and is refused where kmemleak is off.
	if ! { echo stack=on >$leaks; } 2>/dev/null; then
		skip "needs CONFIG_DEBUG_KMEMLEAK, and kmemleak=on"
		return
	fi
	echo clear >$leaks
	null_disk leaking 16 irqmode=2 completion_nsec=10000
	below failing-disk flakey "$DISK" 0 0 3600
	map_flags leaking "$1" 64 both || return 0
	failed_requests write 1 >/dev/null
	failed_requests read 1 >/dev/null
	undo_last 4
	# A block is reported once it was found unreferenced and some seconds old.
	echo scan >$leaks
	sleep 6
	echo scan >$leaks
	want "kmemleak" "" "$(grep -A 12 '^unreferenced' $leaks | grep -m 3 -E 'crypt')"
}

needs fio target:flakey null_blk modes async

# The one that keeps little comes first: pages that one kept are missing to the next.
CLAIMS=("kmemleak_finds_nothing $ASYNC_XTS"
	"nothing_is_kept aes-xts-plain64" "nothing_is_kept $ASYNC_XTS")
quick_claims "kmemleak_finds_nothing $ASYNC_XTS" \
	"nothing_is_kept aes-xts-plain64"
run_claims
