#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="the patched and a released cryptsetup use each other's LUKS2 headers with the flags"
#
# Requires: root, dmsetup, null_blk, jq, xxd, the patched cryptsetup, and a released one in /sbin that
# knows the options.
# Risks: none.

. "$(dirname "$0")/volumes.sh"

# with PROGRAM FUNCTION ARGUMENT...: call the function with another program.
with() {
	local CRYPTSETUP=$1

	shift
	"$@"
}

# exchanged WRITER READER MODE: WRITER creates a volume, READER opens and refreshes it, WRITER opens it. Both are
# names of variables.
exchanged() {
	local writer=${!1} reader=${!2} mode=$3 program

	with "$writer" volume luks2
	# The options are words.
	with "$writer" silent open "${OPEN[@]}" "$VOLUME" --persistent ${OPTIONS[$mode]}
	defer close_volume
	with "$writer" close_volume
	want "flags in the JSON" "${STORED[$mode]}" "$(stored "$DEVICE")"
	for program in "$writer" "$reader"; do
		want "flags in luksDump of $program" "${STORED[$mode]:-(no flags)}" "$(dumped "$DEVICE" "$program")"
	done
	with "$reader" silent open "${OPEN[@]}" "$VOLUME"
	want "arguments" "$(counted ${FLAGS[$mode]})" "$(arguments "$VOLUME")"
	want "header after the open" "valid valid" "$(validity "$DEVICE")"

	with "$reader" silent refresh --persistent "$VOLUME" "$NO_WRITE" --allow-discards
	with "$reader" close_volume
	with "$writer" silent open "${OPEN[@]}" "$VOLUME"
	want "arguments" "$(counted allow_discards no_write_workqueue)" "$(arguments "$VOLUME")"
	want "flags in luksDump of $writer" "allow-discards no-write-workqueue" "$(dumped "$DEVICE" "$writer")"
}

# The released program opens a mapping; the patched one shows, refreshes and closes it.
patched_on_a_mapping_of_released() {
	with "$RELEASED" volume luks2
	with "$RELEASED" silent open "${OPEN[@]}" "$VOLUME" "$NO_READ" "$NO_WRITE"
	defer close_volume
	active "${FLAGS[both]}"
	silent refresh "$VOLUME" "$NO_READ"
	active no_read_workqueue
	silent resize "$VOLUME" --size 4096
	active no_read_workqueue
	silent close "$VOLUME"
}

requires_cryptsetup flags jq xxd
"$RELEASED" --help 2>/dev/null | grep -q -e "$NO_READ" || skip "needs a released cryptsetup with $NO_READ"
diag "released: $("$RELEASED" --version)"

for mode in no_read no_write both; do
	CASES+=("exchanged RELEASED CRYPTSETUP $mode" "exchanged CRYPTSETUP RELEASED $mode")
done
CASES+=(patched_on_a_mapping_of_released)
quick_cases "exchanged RELEASED CRYPTSETUP both" "exchanged CRYPTSETUP RELEASED both" patched_on_a_mapping_of_released
run
