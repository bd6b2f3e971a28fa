#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="whichever allocation of an operation fails, nothing leaks, hangs, or succeeds wrongly"
#
# Of the operations load, resume, key set, key wipe, read and write: those allocations that the
# caller makes itself, and of reads and writes those of workers.
# Requires: root, dmsetup, null_blk, dm-integrity, python3, debugfs, /proc/PID/fail-nth,
# CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC, CONFIG_DEBUG_KMEMLEAK.
# Risks: CONFIG_DEBUG_OBJECTS may give up until the next boot: use a guest.
# Kernel arguments: kmemleak=on
# Provokes: ODEBUG: Out of memory
# Guest: emulated

. "$(dirname "$0")/common.sh"

WARNINGS=${WARNINGS/ODEBUG/ODEBUG: [^O]} # all but "Out of memory"

# each_allocation_fails MODE CIPHER [OPTIONAL ARGUMENT]...
each_allocation_fails() {
	local mode=$1 said

	forget_leaks
	# The disk completes in the task that submits.
	null_disk irqmode=0
	[[ $2 != *gcm* ]] || tags_over 28
	crypt failing "$2" ${FLAGS[$mode]} "${@:3}"
	said=$("$(dirname "$0")/fail_nth.py" "${MAPPED##*/}" "$(dmsetup table --showkeys "${MAPPED##*/}")" 2>&1)
	want "status of fail_nth.py" 0 $?
	diag "$said"
	undo
	no_leaks
}

requires debugfs python3 target:integrity modes
needs_kmemleak
[ -e /proc/self/fail-nth ] && [ -d $DEBUGFS/failslab ] && [ -d $DEBUGFS/fail_page_alloc ] ||
	skip "needs CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC"
for injector in failslab fail_page_alloc; do # fail-nth chooses among all allocations
	inject $DEBUGFS/$injector
done

for mode in "${MODES[@]}"; do
	CASES+=("each_allocation_fails $mode aes-xts-plain64")
done
CASES+=("each_allocation_fails both aes-cbc-essiv:sha256"
	"each_allocation_fails both aes-cbc-eboiv sector_size:4096"
	"each_allocation_fails both aes-cbc-elephant"
	"each_allocation_fails both null"
	"each_allocation_fails default capi:gcm(aes)-random integrity:28:aead sector_size:4096"
	"each_allocation_fails both capi:gcm(aes)-random integrity:28:aead sector_size:4096")
quick_cases "each_allocation_fails both aes-xts-plain64"
run
