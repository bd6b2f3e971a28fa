#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="discards reach the disk only with allow_discards, and flushes always"
#
# In all modes. A discard removes nothing else; synced data survives the loss of the disk's cache.
# Requires: root, dmsetup, blkdiscard, null_blk with discards and a cache.
# Risks: none.
# CPUs: 1

. "$(dirname "$0")/common.sh"

MIB=1048576

# write_mib NUMBER: that MiB of the data to the same place of the mapping.
write_mib() {
	dd if="$DATA" of="$MAPPED" bs=1M skip="$1" seek="$1" count=1 oflag=direct status=none
	want "status of writing MiB $1" 0 $?
}

# same_mib NUMBER: print "same", or the first difference, of that MiB of the mapping.
same_mib() {
	dd if="$MAPPED" bs=1M skip="$1" count=1 iflag=direct status=none |
		cmp - <(dd if="$DATA" bs=1M skip="$1" count=1 status=none) 2>&1 && echo same
}

# discard_reaches_the_disk MODE [allow_discards]: or not, without that argument. Write 4 MiB, discard the third and read
# the others.
discard_reaches_the_disk() {
	local number expected=failure

	[ -z "$2" ] || expected=success
	random_data 4M
	null_disk size=4 discard=1
	crypt discarding aes-xts-plain64 $2 ${FLAGS[$1]}
	for number in 0 1 2 3; do
		write_mib $number
	done
	want "discarding" $expected "$(outcome blkdiscard --offset $((2 * MIB)) --length $MIB "$MAPPED")"
	for number in 0 1 3; do
		want "MiB $number, which was not discarded" same "$(same_mib $number)"
	done
	if [ $expected = success ]; then
		want "bytes of the discarded MiB on the disk" 0 \
			"$(dd if="$DEVICE" bs=1M skip=2 count=1 iflag=direct status=none | tr -d '\0' | wc -c)"
	else
		want "the MiB that was not discarded" same "$(same_mib 2)"
	fi
}

# synced_data_survives MODE: MiB 0 is synced, MiB 1 is not, then the disk loses its cache.
synced_data_survives() {
	local dir

	random_data 2M
	null_disk size=8 cache_size=4
	dir=$NULLB/$NAME-$disks
	crypt lossy aes-xts-plain64 ${FLAGS[$1]}
	write_mib 0
	sync "$MAPPED"
	want "status of sync" 0 $?
	write_mib 1
	undo_last # the mapping
	echo 0 >"$dir/power"
	echo 1 >"$dir/power"
	[ -b "$DEVICE" ] || DEVICE=/dev/nullb$(cat "$dir/index")
	crypt lossy aes-xts-plain64 ${FLAGS[$1]}
	want "the synced data" same "$(same_mib 0)"
	[ "$(same_mib 1)" != same ] || skip "null_blk loses nothing without power"
}

requires blkdiscard modes

for mode in "${MODES[@]}"; do
	CASES+=("discard_reaches_the_disk $mode allow_discards" "discard_reaches_the_disk $mode"
		"synced_data_survives $mode")
done
quick_cases "discard_reaches_the_disk both allow_discards" "discard_reaches_the_disk both" \
	"synced_data_survives both"
run
