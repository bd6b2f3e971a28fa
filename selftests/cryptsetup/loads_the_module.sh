#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: while dm-crypt is not loaded and its version therefore unknown, an open
# with the options loads it, uses them and has nothing to say.
# Needs: root, dmsetup, null_blk, dm-crypt as a module that nobody uses, the
# patched cryptsetup and the images of its tests. Endangers: dm-crypt is unloaded.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/volumes.sh"
. "$here/header.sh"

unload() {
	modprobe -r dm-crypt || broken "cannot unload dm-crypt"
	! dmsetup targets | grep -q '^crypt ' || broken "dm-crypt is still there"
}

# loaded_by_open TYPE MODE
loaded_by_open() {
	volume "$1" || return 0
	unload
	# The options are words.
	open_volume ${OPTIONS[$2]}
	want "messages" "" "$SAID"
	in_force "${FLAGS[$2]}"
}

# What is stored in the header counts as much.
loaded_by_open_of_stored_flags() {
	volume luks2 || return 0
	store "$DISK" no-read-workqueue no-write-workqueue
	unload
	open_volume
	want "messages" "" "$SAID"
	in_force "${FLAGS[both]}"
}

# With --persistent the flags in force are read back and stored.
stored_by_open() {
	volume luks2 || return 0
	unload
	open_volume --persistent "$NO_READ" "$NO_WRITE"
	want "messages" "" "$SAID"
	want "stored flags" "${STORED[both]}" "$(stored "$DISK")"
}

require_cryptsetup flags tar xz jq xxd
modprobe -r dm-crypt 2>/dev/null || skip_all "dm-crypt is in use or not a module"
defer modprobe dm-crypt

CLAIMS=()
for type in "${ALL_TYPES[@]}"; do
	CLAIMS+=("loaded_by_open $type both")
done
CLAIMS+=("loaded_by_open plain no_read" "loaded_by_open luks2 no_write"
	loaded_by_open_of_stored_flags stored_by_open)
quick_claims "loaded_by_open luks2 both" "loaded_by_open tcrypt-chain both" \
	"loaded_by_open plain no_read" loaded_by_open_of_stored_flags stored_by_open
run_claims
