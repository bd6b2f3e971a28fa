#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a refresh of a type that cannot be refreshed, or of what is not open, fails
# with a message and changes nothing. Actions that do nothing with the options take
# them as they take the other performance options: scripts share option lists.
# Needs: root, dmsetup, null_blk, the patched cryptsetup and the images of its
# tests. Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/volumes.sh"

refresh_of() {
	local table

	volume "$1" || return 0
	open_volume || return
	table=$(dmsetup table "$NAME")
	if cs refresh "${OPEN[@]:0:${#OPEN[@]}-1}" "$NAME" "$NO_READ" "$NO_WRITE"; then
		want "exit status" failure success
	fi
	want "message" some "${COMPLAINED:+some}"
	diag "$COMPLAINED"
	want "table" "$table" "$(dmsetup table "$NAME")"
}

# Whether the type is looked up or given; it used to ask for a key file first.
loopaes_is_refused() {
	local arguments

	volume loopaes
	open_volume || return
	for arguments in "" "--type loopaes"; do
		# The arguments are words.
		cs refresh $arguments "$NAME" "$NO_READ"
		want "exit status" 1 $?
		want "messages" "Refresh is not supported for device type LOOPAES" "$SAID"
	done
}

refresh_of_what_is_not_open() {
	cs refresh "$NAME-absent" "$NO_READ"
	want "exit status" 1 $?
	want "message" some "${COMPLAINED:+some}"
	want "mapping" "" "$(dmsetup ls | grep -o "$NAME-absent")"
}

other_actions_take_them() {
	local shared=("$NO_READ" "$NO_WRITE" --perf-same_cpu_crypt)

	volume luks2 || return 0
	open_volume || return
	works status "$NAME" "${shared[@]}"
	silent resize "$NAME" --size 8192 "${shared[@]}"
	in_force ""
	works luksDump "$DISK" "${shared[@]}"
	silent close "$NAME" "${shared[@]}"
}

require_cryptsetup flags tar xz

CLAIMS=("refresh_of tcrypt" "refresh_of bitlk-xts" "refresh_of loopaes" loopaes_is_refused refresh_of_what_is_not_open
	other_actions_take_them)
run_claims
