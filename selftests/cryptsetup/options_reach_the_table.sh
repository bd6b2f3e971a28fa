#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="open sets the options in each dm-crypt layer of each type of volume"
#
# The status shows them, and the content is the same. An open without the options afterwards sets none. The options also
# work, without a message, where open has to load dm-crypt, whose version is unknown before.
# Requires: root, dmsetup, losetup, null_blk, the patched cryptsetup and the images of its tests; for some cases
# dm-crypt as a module that nobody uses.
# Risks: dm-crypt is unloaded for a moment.

. "$(dirname "$0")/volumes.sh"

# every_layer TYPE [unload]: with "unload" before each open with options.
every_layer() {
	local mode without type=$1

	volume "$type"
	open_volume
	case $type in
	tcrypt* | bitlk*) ;;
	*) dd if=/dev/urandom of="/dev/mapper/$VOLUME" bs=1M count=4 oflag=direct status=none || broken "cannot write" ;;
	esac
	without=$(content)
	close_volume
	for mode in no_read no_write both default; do
		${2:-:}
		# The options are words.
		silent open "${OPEN[@]}" "$VOLUME" ${OPTIONS[$mode]} || return
		active "${FLAGS[$mode]}"
		want "content with ${FLAGS[$mode]}" "$without" "$(content)"
		close_volume
	done
}

requires_cryptsetup flags tar xz

for type in "${ALL_TYPES[@]}"; do
	CASES+=("every_layer $type" "every_layer $type unload")
done
quick_cases "every_layer plain" "every_layer luks2-aead" "every_layer tcrypt-chain" "every_layer bitlk-elephant" \
	"every_layer luks2 unload" "every_layer tcrypt-chain unload"
run
