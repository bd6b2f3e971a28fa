#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="whichever allocation of an operation fails, nothing leaks, hangs, or succeeds wrongly"
#
# Of the operations load, resume, key set, key wipe, read and write: those allocations that the caller makes itself,
# and of reads and writes those of workers. Atomic writes and those to a zone must not be split, either.
# Requires: root, dmsetup, null_blk, dm-integrity, python3, debugfs, FAILSLAB, FAIL_PAGE_ALLOC, DEBUG_KMEMLEAK, blkzone.
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
	null_disk irqmode=0 # both disks complete in the task that submits
	if [[ $mode = atomic || $mode = zoned ]]; then
		modprobe -q tagged_disk ${mode#atomic} || skip "needs the disk of tagged_disk.c"
		defer rmmod tagged_disk
		DEVICE=/dev/tagged_disk
	elif [[ $2 = *gcm* ]]; then
		tags_over 28
	fi
	crypt failing "$2" ${FLAGS[$mode]} "${@:3}"
	said=$("$(dirname "$0")/fail_nth.py" "${MAPPED##*/}" "$(dmsetup table --showkeys "${MAPPED##*/}")" "$mode" 2>&1)
	want "status of fail_nth.py" 0 $?
	diag "$said"
	undo
	no_leaks
}

requires debugfs python3 target:integrity modes
needs_kmemleak
[ -e /proc/self/fail-nth ] && [ -d $DEBUGFS/failslab ] && [ -d $DEBUGFS/fail_page_alloc ] ||
	skip "needs CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC"
inject $DEBUGFS/failslab
inject $DEBUGFS/fail_page_alloc # fail-nth chooses among all allocations
GCM="capi:gcm(aes)-random integrity:28:aead" FLAGS[atomic]=${FLAGS[both]} FLAGS[zoned]=${FLAGS[both]}
CASES=("${MODES[@]/%/ aes-xts-plain64}" "both aes-cbc-essiv:sha256" "both aes-cbc-eboiv sector_size:4096"
	"both aes-cbc-elephant" "both null" "default $GCM sector_size:4096" "both $GCM sector_size:4096")
CASES=("${CASES[@]/#/each_allocation_fails }")
quick_cases "each_allocation_fails both aes-xts-plain64"
CASES+=("each_allocation_fails atomic $GCM" "each_allocation_fails zoned $GCM")
run
