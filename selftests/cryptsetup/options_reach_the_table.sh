#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: the options given to open are in the table of every dm-crypt layer and
# in the status, for every type of volume, and do not change what is read.
# Needs: root, dmsetup, losetup, null_blk, the patched cryptsetup and the images
# of its tests. Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/volumes.sh"

every_layer() {
	local mode without type=$1

	volume "$type" || return 0
	open_volume || return
	in_force ""
	case $type in
	tcrypt* | bitlk*) ;;
	*) dd if=/dev/urandom of="/dev/mapper/$NAME" bs=1M count=4 oflag=direct status=none || broken "cannot write" ;;
	esac
	without=$(content)
	close_volume
	for mode in no_read no_write both; do
		# The options are words.
		silent open "${OPEN[@]}" "$NAME" ${OPTIONS[$mode]} || return
		in_force "${FLAGS[$mode]}"
		want "content with ${FLAGS[$mode]}" "$without" "$(content)"
		close_volume
	done
}

require_cryptsetup flags tar xz

CLAIMS=("${ALL_TYPES[@]/#/every_layer }")
quick_claims "every_layer plain" "every_layer luks2-aead" "every_layer tcrypt-chain" "every_layer bitlk-elephant"
run_claims
