#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a LUKS2 header with the flags, written by a released cryptsetup that has
# them, works with the patched one, and the other way round.
# Needs: root, dmsetup, null_blk, jq, xxd, the patched cryptsetup and a released
# one in /sbin that knows the options. Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/volumes.sh"
. "$here/header.sh"

# with PROGRAM FUNCTION ARGUMENT...: the other program in the place of the tested one.
with() {
	local CRYPTSETUP=$1

	shift
	"$@"
}

# exchanged WRITER READER MODE: a volume all by WRITER, opened by READER, whose
# refresh is then seen by WRITER.
exchanged() {
	local writer=$1 reader=$2 mode=$3 program

	with "$writer" volume luks2 || return 0
	# The options are words.
	with "$writer" silent open "${OPEN[@]}" "$NAME" --persistent ${OPTIONS[$mode]}
	defer close_volume
	with "$writer" close_volume
	want "flags in the JSON" "${STORED[$mode]}" "$(stored "$DISK")"
	for program in "$writer" "$reader"; do
		want "flags in luksDump of $program" "${STORED[$mode]:-(no flags)}" "$(dumped "$DISK" "$program")"
	done
	with "$reader" silent open "${OPEN[@]}" "$NAME"
	# The released status is looked at by status_shows_flags' own words only.
	want "arguments" "$(counted ${FLAGS[$mode]})" "$(arguments "$NAME")"
	want "header after the open" "valid valid" "$(validity "$DISK")"

	with "$reader" silent refresh --persistent "$NAME" "$NO_WRITE" --allow-discards
	with "$reader" close_volume
	with "$writer" silent open "${OPEN[@]}" "$NAME"
	want "arguments" "$(counted allow_discards no_write_workqueue)" "$(arguments "$NAME")"
	want "flags in luksDump of $writer" "allow-discards no-write-workqueue" "$(dumped "$DISK" "$writer")"
}

released_to_ours() {
	exchanged "$RELEASED" "$CRYPTSETUP" "$1"
}

ours_to_released() {
	exchanged "$CRYPTSETUP" "$RELEASED" "$1"
}

# A mapping that one program opened, the other one shows, refreshes and closes.
ours_on_a_mapping_of_released() {
	with "$RELEASED" volume luks2 || return 0
	with "$RELEASED" silent open "${OPEN[@]}" "$NAME" "$NO_READ" "$NO_WRITE"
	defer close_volume
	in_force "${FLAGS[both]}"
	silent refresh "$NAME" "$NO_READ"
	in_force no_read_workqueue
	silent resize "$NAME" --size 4096
	in_force no_read_workqueue
	silent close "$NAME"
}

require_cryptsetup flags jq xxd
"$RELEASED" --help 2>/dev/null | grep -q -e "$NO_READ" || skip_all "needs a released cryptsetup with $NO_READ"
diag "released: $("$RELEASED" --version)"

CLAIMS=()
for mode in no_read no_write both; do
	CLAIMS+=("released_to_ours $mode" "ours_to_released $mode")
done
CLAIMS+=(ours_on_a_mapping_of_released)
quick_claims "released_to_ours both" "ours_to_released both" ours_on_a_mapping_of_released
run_claims
