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

# nothing_is_kept CIPHER: a mapping counts the pages that it has; one that goes and has some
# left says so.
nothing_is_kept() {
	null_disk leaking 16 irqmode=2 completion_nsec=10000
	below failing-disk flakey "$DISK" 0 0 3600
	map_flags leaking "$1" 64 both || return 0
	want "writes that failed" 64 "$(failed_requests write 4)"
	want "reads that failed" 64 "$(failed_requests read 4)"
	undo_last
	no_complaints
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
	want "writes that failed" 16 "$(failed_requests write 1)"
	want "reads that failed" 16 "$(failed_requests read 1)"
	undo_last 4
	# A block is reported once it was found unreferenced and some seconds old.
	{ echo scan >$leaks && sleep 6 && echo scan >$leaks; } || broken "kmemleak has turned itself off"
	want "kmemleak" "" "$(grep -A 12 '^unreferenced' $leaks | grep -m 3 -E 'crypt')"
}

needs fio target:flakey null_blk modes async

CLAIMS=("kmemleak_finds_nothing async-xts"
	"nothing_is_kept aes-xts-plain64" "nothing_is_kept async-xts")
quick_claims "kmemleak_finds_nothing async-xts" \
	"nothing_is_kept aes-xts-plain64"
run_claims
