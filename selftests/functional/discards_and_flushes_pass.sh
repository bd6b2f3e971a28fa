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

# discards ARGUMENT...: write 4 MiB, discard the third and read the others. Sets $DISCARDED to
# "success" or "failure", and $REST to the number of bytes in that MiB of the disk that are not 0.
discards() {
	local number

	random_data 4M
	null_disk size=4 discard=1
	crypt discarding aes-xts-plain64 "$@"
	for number in 0 1 2 3; do
		write_mib $number
	done
	DISCARDED=$(outcome blkdiscard --offset $((2 * MIB)) --length $MIB "$MAPPED")
	REST=$(dd if="$DEVICE" bs=1M skip=2 count=1 iflag=direct status=none | tr -d '\0' | wc -c)
	for number in 0 1 3; do
		want "MiB $number, which was not discarded" same "$(same_mib $number)"
	done
}

# discard_reaches_the_disk MODE
discard_reaches_the_disk() {
	discards allow_discards ${FLAGS[$1]}
	want "discarding with allow_discards" success "$DISCARDED"
	want "bytes of the discarded MiB on the disk" 0 "$REST"
}

# discard_is_refused_without_the_argument MODE
discard_is_refused_without_the_argument() {
	discards ${FLAGS[$1]}
	want "discarding without allow_discards" failure "$DISCARDED"
	want "the MiB that was not discarded" same "$(same_mib 2)"
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
	CASES+=("discard_reaches_the_disk $mode"
		"discard_is_refused_without_the_argument $mode"
		"synced_data_survives $mode")
done
quick_cases "discard_reaches_the_disk both" \
	"discard_is_refused_without_the_argument both" "synced_data_survives both"
run
