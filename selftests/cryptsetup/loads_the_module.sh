#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="an open with the options loads dm-crypt, and uses the options without a message"
#
# Before, the version of dm-crypt is unknown.
# Requires: root, dmsetup, null_blk, dm-crypt as a module that nobody uses, the patched cryptsetup and
# the images of its tests.
# Risks: dm-crypt is unloaded.

. "$(dirname "$0")/volumes.sh"

# loaded_by_open TYPE MODE
loaded_by_open() {
	volume "$1"
	unload
	# The options are words.
	open_volume ${OPTIONS[$2]}
	want "messages" "" "$SAID"
	active "${FLAGS[$2]}"
}

# Flags in the header count as much as options.
loaded_by_open_of_stored_flags() {
	volume luks2
	store "$DEVICE" no-read-workqueue no-write-workqueue
	unload
	open_volume
	want "messages" "" "$SAID"
	active "${FLAGS[both]}"
}

# --persistent reads the active flags back and stores them.
stored_by_open() {
	volume luks2
	unload
	open_volume --persistent "$NO_READ" "$NO_WRITE"
	want "messages" "" "$SAID"
	want "stored flags" "${STORED[both]}" "$(stored "$DEVICE")"
}

requires_cryptsetup flags tar xz jq xxd
modprobe -r dm-crypt 2>/dev/null || skip "dm-crypt is in use or not a module"
defer modprobe dm-crypt

for type in "${ALL_TYPES[@]}"; do
	CASES+=("loaded_by_open $type both")
done
CASES+=("loaded_by_open plain no_read" "loaded_by_open luks2 no_write"
	loaded_by_open_of_stored_flags stored_by_open)
quick_cases "loaded_by_open luks2 both" "loaded_by_open tcrypt-chain both" \
	"loaded_by_open plain no_read" loaded_by_open_of_stored_flags stored_by_open
run
