#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="each request to a failing disk fails once, and frees what was allocated for it"
#
# Requires: root, dmsetup, fio, null_blk, dm-flakey; for one case CONFIG_DEBUG_KMEMLEAK.
# Risks: none.
# Kernel arguments: kmemleak=on
# Guest: emulated

. "$(dirname "$0")/common.sh"

# every_request_fails MIB
every_request_fails() {
	want "writes that failed" $(($1 * 16)) "$(failed_requests write "$1")"
	want "reads that failed" $(($1 * 16)) "$(failed_requests read "$1")"
	no_requests_in_flight "$MAPPED"
}

# nothing_is_kept MODE CIPHER IRQMODE: a mapping that has pages when it is removed warns of them.
nothing_is_kept() {
	null_disk "irqmode=$3" completion_nsec=10000
	below failing-disk flakey "$DEVICE" 0 0 3600
	crypt failing "$2" ${FLAGS[$1]}
	every_request_fails 4
}

# kmemleak_finds_nothing CIPHER: failed requests leave nothing unreferenced.
kmemleak_finds_nothing() {
	needs_kmemleak
	forget_leaks
	null_disk completion_nsec=10000
	below failing-disk flakey "$DEVICE" 0 0 3600
	crypt leaking "$1" ${FLAGS[both]}
	every_request_fails 1
	undo
	no_leaks
}

requires fio target:flakey modes async

CASES=("kmemleak_finds_nothing async-xts")
for mode in "${MODES[@]}"; do
	CASES+=("nothing_is_kept $mode aes-xts-plain64 2" "nothing_is_kept $mode async-xts 2")
done
CASES+=("nothing_is_kept both aes-xts-plain64 0" "nothing_is_kept both aes-xts-plain64 1")
quick_cases "kmemleak_finds_nothing async-xts" "nothing_is_kept default aes-xts-plain64 2" \
	"nothing_is_kept both aes-xts-plain64 1" "nothing_is_kept both async-xts 2"
run
