#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="open sets the options in each dm-crypt layer of each type of volume"
#
# The status shows them, and the content is the same.
# Requires: root, dmsetup, losetup, null_blk, the patched cryptsetup and the images of its tests.
# Risks: none.

. "$(dirname "$0")/volumes.sh"

every_layer() {
	local mode without type=$1

	volume "$type"
	open_volume
	active ""
	case $type in
	tcrypt* | bitlk*) ;;
	*) dd if=/dev/urandom of="/dev/mapper/$VOLUME" bs=1M count=4 oflag=direct status=none || broken "cannot write" ;;
	esac
	without=$(content)
	close_volume
	for mode in no_read no_write both; do
		# The options are words.
		silent open "${OPEN[@]}" "$VOLUME" ${OPTIONS[$mode]} || return
		active "${FLAGS[$mode]}"
		want "content with ${FLAGS[$mode]}" "$without" "$(content)"
		close_volume
	done
}

requires_cryptsetup flags tar xz

CASES=("${ALL_TYPES[@]/#/every_layer }")
quick_cases "every_layer plain" "every_layer luks2-aead" "every_layer tcrypt-chain" "every_layer bitlk-elephant"
run
