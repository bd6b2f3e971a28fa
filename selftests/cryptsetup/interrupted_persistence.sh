#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="an interrupted --persistent leaves a valid LUKS2 header, with the old flags or the new"
#
# It is killed at any point, runs twice at once, or finds a header that it cannot write or that is full.
# Requires: root, dmsetup, null_blk, dm-delay, jq, xxd, the patched cryptsetup.
# Risks: none.

. "$(dirname "$0")/volumes.sh"

ROUNDS=$(full_or_quick 24 12)

# refresh_in_background OPTION...: sets $PID.
refresh_in_background() {
	printf '%s\n' "$SECRET" >"$WORK/secret"
	"$CRYPTSETUP" refresh --persistent "$VOLUME" "$@" <"$WORK/secret" >"$WORK/said.$1" 2>&1 &
	PID=$!
}

# one_of WHAT ACTUAL EXPECTED...
one_of() {
	local what=$1 actual=$2 expected

	shift 2
	for expected in "$@"; do
		[ "$actual" != "$expected" ] || return 0
	done
	want "$what" "$(printf '%s, or ' "$@")nothing else" "$actual"
}

# The next refresh starts from the flags after the last kill.
killed_at_any_point() {
	local start took i old new delay found torn=0 kept=0 changed=0
	local option=("$NO_READ" "$NO_WRITE") flag=(no-read-workqueue no-write-workqueue)

	volume luks2
	# A kill then also falls between the writes of a header.
	slow_disk 60
	open_volume --persistent "$NO_READ"
	start=${EPOCHREALTIME/./}
	silent refresh --persistent "$VOLUME" "$NO_READ"
	took=$(((${EPOCHREALTIME/./} - start) / 1000)) # ms
	old=0
	for ((i = 0; i < ROUNDS; i++)); do
		new=$((1 - old))
		# From the first moment to somewhat after the end.
		delay=$((took * 5 * i / (4 * (ROUNDS - 1))))
		refresh_in_background "${option[new]}"
		sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
		kill -9 "$PID" 2>/dev/null
		wait "$PID" 2>/dev/null
		[ "$(validity "$DEVICE")" = "valid valid" ] || torn=$((torn + 1))
		# luksDump repairs a header with one good copy.
		cs luksDump "$DEVICE"
		want "exit status of luksDump after $delay ms" 0 $? || diag "$ERRORS"
		want "header after $delay ms" "valid valid" "$(validity "$DEVICE")"
		found=$(stored "$DEVICE")
		one_of "flags after $delay ms" "$found" "${flag[old]}" "${flag[new]}"
		one_of "table after $delay ms" "$(arguments "$VOLUME")" "1 ${flag[0]//-/_}" "1 ${flag[1]//-/_}"
		want "state after $delay ms" Active "$(dmsetup info -c --noheadings -o suspended "$VOLUME")"
		timeout 10 dd if="/dev/mapper/$VOLUME" of=/dev/null bs=4096 count=1 iflag=direct status=none
		want "exit status of a read after $delay ms" 0 $?
		if [ "$found" = "${flag[new]}" ]; then
			changed=$((changed + 1))
			old=$new
		else
			kept=$((kept + 1))
		fi
	done
	diag "$ROUNDS kills over $((took * 5 / 4)) ms: $kept left the old flags, $changed the new, $torn an unfinished copy"
	[ "$kept" -gt 0 ] && [ "$changed" -gt 0 ] || want "both outcomes" yes "kept $kept, changed $changed"
}

# With different flags, and often enough for every order of their steps.
two_at_once() {
	local i first status lost=0 output

	volume luks2
	open_volume --persistent "$NO_READ" "$NO_WRITE"
	for ((i = 0; i < ROUNDS / 2; i++)); do
		refresh_in_background "$NO_READ"
		first=$PID
		refresh_in_background "$NO_WRITE"
		for output in "$first $NO_READ" "$PID $NO_WRITE"; do
			wait "${output% *}"
			status=$?
			output=$WORK/said.${output#* }
			[ "$status" -lt 128 ] || want "exit status" "no crash" "$status"
			[ "$status" -eq 0 ] || want "message of the one that failed" some "$([ -s "$output" ] && echo some)"
			[ ! -s "$output" ] || lost=$((lost + 1))
			cat "$output" >>"$WORK/messages"
		done
		want "header" "valid valid" "$(validity "$DEVICE")"
		one_of "flags" "$(stored "$DEVICE")" no-read-workqueue no-write-workqueue
		one_of "table" "$(arguments "$VOLUME")" "1 no_read_workqueue" "1 no_write_workqueue"
		want "state" Active "$(dmsetup info -c --noheadings -o suspended "$VOLUME")"
		# Both flags, so that the next round cannot find its result of this one.
		silent refresh --persistent "$VOLUME" "$NO_READ" "$NO_WRITE"
		want "flags" "${STORED[both]}" "$(stored "$DEVICE")"
	done
	diag "$lost of $((2 * i)) got a message:" "$(sort "$WORK/messages" | uniq -c)"
}

# printed_not_stored: open and refresh print that the flags are not stored.
printed_not_stored() {
	want "message" "cannot make all flags persistent" \
		"$(grep -o "cannot make all flags persistent" <<<"$ERRORS" | head -n 1)"
	diag "$ERRORS"
}

# opened_read_only ARGUMENT...: the header cannot be written.
opened_read_only() {
	store "$DEVICE" no-write-workqueue
	before=$(header)
	blockdev --setro "$DEVICE"
	defer blockdev --setrw "$DEVICE"
	cs open "$@" --persistent "$NO_READ"
	diag "exit status $?"
	defer close_volume
	printed_not_stored
	active no_read_workqueue
	content >/dev/null
}

read_only_header() {
	local before data

	volume luks2
	data=$DEVICE
	null_disk size=8 irqmode=1
	dd if="$data" of="$DEVICE" bs=1M count=4 oflag=direct status=none || broken "cannot copy the header"
	opened_read_only --type luks --header "$DEVICE" "$data" "$VOLUME"
	cs refresh --header "$DEVICE" --persistent "$VOLUME" "$NO_READ" "$NO_WRITE"
	diag "exit status $?"
	printed_not_stored
	active "${FLAGS[both]}"
	want "header" "$before" "$(header)"
}

read_only_volume() {
	local before

	volume luks2
	opened_read_only "${OPEN[@]}" "$VOLUME" --readonly
	want "header" "$before" "$(header)"
}

# fill: import tokens until the header is full, then smaller and smaller ones.
fill() {
	local bytes=4096 token

	while [ "$bytes" -gt 0 ]; do
		token="{\"type\":\"fill\",\"keyslots\":[],\"x\":\"$(head -c "$bytes" /dev/zero | tr '\0' x)\"}"
		printf '%s' "$token" >"$WORK/token"
		"$CRYPTSETUP" token import "$DEVICE" --json-file "$WORK/token" 2>/dev/null || bytes=$((bytes / 2))
	done
	diag "JSON text of $(json "$DEVICE" 0 | wc -c) bytes of $((COPY - 4096))"
}

no_room_in_the_header() {
	local before

	volume luks2
	open_volume --persistent "$NO_READ"
	fill
	before=$(header)
	cs refresh --persistent "$VOLUME" "$NO_READ" "$NO_WRITE" --allow-discards \
		--perf-same_cpu_crypt --perf-submit_from_crypt_cpus
	diag "exit status $?"
	printed_not_stored
	active "${FLAGS[both]}" discards same_cpu_crypt submit_from_crypt_cpus
	want "header" "$before" "$(header)"
	close_volume
	silent open "${OPEN[@]}" "$VOLUME"
	active no_read_workqueue
}

requires_cryptsetup flags target:delay jq xxd

CASES=(killed_at_any_point two_at_once read_only_header read_only_volume no_room_in_the_header)
run
