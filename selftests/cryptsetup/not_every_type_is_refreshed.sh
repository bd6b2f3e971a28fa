#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a refresh that is not possible fails with a message and changes nothing"
#
# Actions that do not use the options accept them, as they accept the other performance options:
# scripts share option lists.
# Requires: root, dmsetup, null_blk, the patched cryptsetup and the images of its tests.
# Risks: none.

. "$(dirname "$0")/volumes.sh"

refresh_of() {
	local table

	volume "$1"
	open_volume
	table=$(dmsetup table "$VOLUME")
	if cs refresh "${OPEN[@]:0:${#OPEN[@]}-1}" "$VOLUME" "$NO_READ" "$NO_WRITE"; then
		want "exit status" failure success
	fi
	want "message" some "${ERRORS:+some}"
	diag "$ERRORS"
	want "table" "$table" "$(dmsetup table "$VOLUME")"
}

# With and without --type. The released program asks for a key file first.
loopaes_is_refused() {
	local arguments

	volume loopaes
	open_volume
	for arguments in "" "--type loopaes"; do
		# The arguments are words.
		cs refresh $arguments "$VOLUME" "$NO_READ"
		want "exit status" 1 $?
		want "messages" "Refresh is not supported for device type LOOPAES" "$SAID"
	done
}

refresh_of_what_is_not_open() {
	cs refresh "$VOLUME-absent" "$NO_READ"
	want "exit status" 1 $?
	want "message" some "${ERRORS:+some}"
	want "mapping" "" "$(dmsetup ls | grep -o "$VOLUME-absent")"
}

other_actions_take_them() {
	local shared=("$NO_READ" "$NO_WRITE" --perf-same_cpu_crypt)

	volume luks2
	open_volume
	works status "$VOLUME" "${shared[@]}"
	silent resize "$VOLUME" --size 8192 "${shared[@]}"
	active ""
	works luksDump "$DEVICE" "${shared[@]}"
	silent close "$VOLUME" "${shared[@]}"
}

requires_cryptsetup flags tar xz

CASES=("refresh_of tcrypt" "refresh_of bitlk-xts" "refresh_of loopaes" loopaes_is_refused refresh_of_what_is_not_open
	other_actions_take_them)
run
