#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: in every mode a discard reaches the disk where allow_discards is given,
# and only there, and takes nothing else with it; a flush reaches the disk, so that
# what was synced is still there when its cache has lost power.
# Needs: root, dmsetup, blkdiscard, null_blk with discards and a cache.
# Endangers: nothing but devices of its own.
# CPUs: 1

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

CIPHER=aes-xts-plain64
MIB=1048576

# random_data MIB: a temporary file, left in $DATA.
random_data() {
	DATA=$(mktemp) || broken "mktemp failed"
	defer rm -f "$DATA"
	head -c $(($1 * MIB)) /dev/urandom >"$DATA"
}

# write_mib NUMBER: that MiB of the data to the same place of the mapping.
write_mib() {
	dd if="$DATA" of="$MAPPED" bs=1M skip="$1" seek="$1" count=1 oflag=direct status=none
	want "status of writing MiB $1" 0 $?
}

# same_mib NUMBER: "same", or what differs first, in that MiB of the mapping.
same_mib() {
	dd if="$MAPPED" bs=1M skip="$1" count=1 iflag=direct status=none |
		cmp - <(dd if="$DATA" bs=1M skip="$1" count=1 status=none) 2>&1 && echo same
}

# discards ARGUMENT...: write 4 MiB, discard the third and look at all of them.
# What blkdiscard did is left in $DISCARDED, the non-zero bytes on the disk in $LEFT.
discards() {
	local number

	random_data 4
	null_disk discarding 4 discard=1
	map discarding "$(crypt_table "$DISK" $CIPHER "$(key 64)" "$@")" || return
	for number in 0 1 2 3; do
		write_mib $number
	done
	DISCARDED=$(outcome blkdiscard --offset $((2 * MIB)) --length $MIB "$MAPPED")
	LEFT=$(dd if="$DISK" bs=1M skip=2 count=1 iflag=direct status=none | tr -d '\0' | wc -c)
	for number in 0 1 3; do
		want "MiB $number, which was not discarded" same "$(same_mib $number)"
	done
}

discard_reaches_the_disk() {
	discards allow_discards ${FLAGS[$1]} || return 0
	want "discarding with allow_discards" success "$DISCARDED"
	want "bytes of the discarded MiB that are left on the disk" 0 "$LEFT"
	no_complaints
}

discard_is_refused_without_the_argument() {
	discards ${FLAGS[$1]} || return 0
	want "discarding without allow_discards" failure "$DISCARDED"
	want "the MiB that was to be discarded" same "$(same_mib 2)"
	no_complaints
}

# synced_data_survives MODE: MiB 0 is synced, MiB 1 is not, then the disk's cache is lost.
synced_data_survives() {
	local dir=$NULLB/$PREFIX-lossy

	random_data 2
	null_disk lossy 8 cache_size=4
	map_flags lossy $CIPHER 64 "$1" || return 0
	write_mib 0
	sync "$MAPPED"
	want "status of sync" 0 $?
	write_mib 1
	no_complaints
	undo_last # the mapping
	echo 0 >"$dir/power"
	echo 1 >"$dir/power"
	find_null_disk "$dir"
	map_flags lossy $CIPHER 64 "$1"
	want "what was synced" same "$(same_mib 0)"
	[ "$(same_mib 1)" != same ] || skip "null_blk loses nothing without power"
}

needs blkdiscard null_blk modes

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("discard_reaches_the_disk $mode"
		"discard_is_refused_without_the_argument $mode"
		"synced_data_survives $mode")
done
quick_claims "discard_reaches_the_disk both" \
	"discard_is_refused_without_the_argument both" \
	"synced_data_survives both"
run_claims
