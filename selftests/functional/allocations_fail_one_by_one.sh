#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="whichever allocation of an operation fails, nothing leaks, hangs, or succeeds wrongly"
#
# Of the operations load, resume, key set, key wipe, read and write: those allocations that the
# caller makes itself, not those of workers.
# Requires: root, dmsetup, null_blk, dm-integrity, python3, debugfs, /proc/PID/fail-nth,
# CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC, CONFIG_DEBUG_KMEMLEAK.
# Risks: CONFIG_DEBUG_OBJECTS may give up until the next boot: use a guest.
# Kernel arguments: kmemleak=on
# Provokes: ODEBUG: Out of memory
# Guest: emulated

. "$(dirname "$0")/common.sh"

WARNINGS=${WARNINGS/ODEBUG/ODEBUG: [^O]} # all but "Out of memory"
LEAKS=$DEBUGFS/kmemleak

# Let fail-nth choose among all allocations.
all_may_fail() {
	local knobs

	for knobs in $DEBUGFS/failslab $DEBUGFS/fail_page_alloc; do
		echo 0 >"$knobs/verbose" && echo N >"$knobs/ignore-gfp-wait" || broken "cannot set $knobs"
		[ ! -e "$knobs/min-order" ] ||
			{ echo 0 >"$knobs/min-order" && echo N >"$knobs/ignore-gfp-highmem"; } ||
			broken "cannot set $knobs"
	done
}

# each_allocation_fails MODE CIPHER [OPTIONAL ARGUMENT]...
each_allocation_fails() {
	local mode=$1 said

	echo clear >"$LEAKS"
	# The disk completes in the task that submits.
	null_disk irqmode=0
	[[ $2 != *gcm* ]] || tags_over 28
	crypt failing "$2" ${FLAGS[$mode]} "${@:3}"
	said=$("$(dirname "$0")/fail_nth.py" "${MAPPED##*/}" "$(dmsetup table --showkeys "${MAPPED##*/}")" 2>&1)
	want "status of fail_nth.py" 0 $?
	diag "$said"
	undo
	# kmemleak reports a block when it was unreferenced twice, and is some seconds old.
	{ echo scan >"$LEAKS" && sleep 6 && echo scan >"$LEAKS"; } || broken "kmemleak has turned itself off"
	want "kmemleak" "" "$(grep -A 12 '^unreferenced' "$LEAKS" | grep -m 3 -E 'crypt')"
}

requires debugfs python3 target:integrity modes
{ echo stack=on >"$LEAKS"; } 2>/dev/null || skip "needs CONFIG_DEBUG_KMEMLEAK, and kmemleak=on"
[ -e /proc/self/fail-nth ] && [ -d $DEBUGFS/failslab ] && [ -d $DEBUGFS/fail_page_alloc ] ||
	skip "needs CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC"
all_may_fail

for mode in "${MODES[@]}"; do
	CASES+=("each_allocation_fails $mode aes-xts-plain64")
done
CASES+=("each_allocation_fails both aes-cbc-essiv:sha256"
	"each_allocation_fails both aes-cbc-eboiv sector_size:4096"
	"each_allocation_fails both aes-cbc-elephant"
	"each_allocation_fails both null"
	"each_allocation_fails both capi:gcm(aes)-random integrity:28:aead sector_size:4096")
quick_cases "each_allocation_fails both aes-xts-plain64"
run
