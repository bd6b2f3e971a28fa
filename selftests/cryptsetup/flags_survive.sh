#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="suspend, resume, resize and reencryption keep the flags, and a refresh replaces them or fails"
#
# Also during a reencryption, and of a mapping of a released cryptsetup. A refresh that is not possible fails with a
# message and changes nothing. Actions that do not use the options accept them, as they accept the other performance
# options: scripts share option lists.
# Requires: root, dmsetup, fio, null_blk, dm-delay, jq, xxd, the patched cryptsetup and the images of its
# tests; for one case a released one in /sbin that knows the options.
# Risks: none.

. "$(dirname "$0")/volumes.sh"

# with_flags TYPE MODE: create and open a volume.
with_flags() {
	volume "$1"
	# The options are words.
	open_volume ${OPTIONS[$2]}
	active "${FLAGS[$2]}"
}

# refreshed TYPE OPTION...
refreshed() {
	local type=$1

	shift
	case $type in
	plain) silent refresh -q --hash sha256 "$VOLUME" "$@" ;;
	*) silent refresh "$VOLUME" "$@" ;;
	esac
}

suspend_and_resume() {
	local mode=$2

	with_flags "$1" "$mode"
	silent luksSuspend "$VOLUME"
	want "state" SUSPENDED "$(dmsetup info -c --noheadings -o suspended "$VOLUME" | tr '[:lower:]' '[:upper:]')"
	silent luksResume "$VOLUME"
	active "${FLAGS[$mode]}"
	content >/dev/null
}

resize() {
	with_flags "$1" both
	silent resize "$VOLUME" --size 8192
	want "sectors after shrinking" 8192 "$(blockdev --getsz "/dev/mapper/$VOLUME")"
	active "${FLAGS[both]}"
	silent resize "$VOLUME"
	want "sectors after growing" "$(($(sectors_of "$DEVICE") - $(dmsetup table "$VOLUME" | cut -d ' ' -f 8)))" \
		"$(blockdev --getsz "/dev/mapper/$VOLUME")"
	active "${FLAGS[both]}"
}

# A refresh sets the given options and no others, as its manual says.
refresh_sets_what_is_given() {
	local type=$1 others=(--perf-same_cpu_crypt --perf-submit_from_crypt_cpus)

	with_flags "$type" no_read
	refreshed "$type" "$NO_WRITE"
	active no_write_workqueue
	refreshed "$type" "${others[@]}" "$NO_READ" "$NO_WRITE"
	active "${FLAGS[both]}" same_cpu_crypt submit_from_crypt_cpus
	refreshed "$type" --perf-same_cpu_crypt "$NO_READ"
	active no_read_workqueue same_cpu_crypt
	refreshed "$type"
	active ""
	# Storage for tags takes no discards while it has a journal.
	[ -z "$TAGS" ] || return 0
	refreshed "$type" --allow-discards "$NO_READ"
	active no_read_workqueue discards
}

# switch_flags NUMBER
switch_flags() {
	local mode=${MODES[$1 % 4]}

	refreshed luks2 ${OPTIONS[$mode]}
	active "${FLAGS[$mode]}"
}

# The same during I/O.
refresh_under_io() {
	with_flags luks2 no_write
	MAPPED=/dev/mapper/$VOLUME during_io 10 0 switch_flags --bs=4k --size=4M --verify_backlog=64 --rate_iops=100
}

# The released program opens a mapping and stores flags; the patched one changes both. Then the other way round.
exchanged_with_released() {
	"$RELEASED" --help 2>/dev/null | grep -q -e "$NO_READ" || skip "needs a released cryptsetup with $NO_READ"
	CRYPTSETUP=$RELEASED volume luks2
	CRYPTSETUP=$RELEASED open_volume --persistent "$NO_READ" "$NO_WRITE"
	active "${FLAGS[both]}"
	want "flags that the released program stored" "${STORED[both]}" "$(stored "$DEVICE")"
	silent refresh --persistent "$VOLUME" "$NO_READ"
	active no_read_workqueue
	silent resize "$VOLUME" --size 4096
	active no_read_workqueue
	silent close "$VOLUME"
	want "flags that the released program shows" no-read-workqueue "$(dumped "$DEVICE" "$RELEASED")"
	CRYPTSETUP=$RELEASED silent open "${OPEN[@]}" "$VOLUME"
	active no_read_workqueue
	CRYPTSETUP=$RELEASED silent refresh --persistent "$VOLUME" "$NO_WRITE"
	close_volume
	silent open "${OPEN[@]}" "$VOLUME"
	active no_write_workqueue
}

refresh_is_refused() {
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

# Also with other arguments. The released program asks for a key file first.
refresh_of_loopaes_is_refused() {
	local arguments

	refresh_is_refused loopaes
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

	with_flags luks2 default
	works status "$VOLUME" "${shared[@]}"
	silent resize "$VOLUME" --size 8192 "${shared[@]}"
	active ""
	works luksDump "$DEVICE" "${shared[@]}"
	silent close "$VOLUME" "${shared[@]}"
}

# reencrypt OPTION...: of the open volume, with tiny steps.
reencrypt() {
	works reencrypt -q "${FAST_KDF[@]}" --resilience none --hotzone-size 64K --active-name "$VOLUME" "$@"
}

# The flags are checked after its start, in the middle (where a signal stops it) and at the end. The key
# changes, the data does not.
online_reencryption() {
	local mode=$1 before pid key

	volume luks2
	# On a fast disk it may be complete before the signal.
	slow_disk 4
	# The options are words.
	open_volume ${OPTIONS[$mode]}
	dd if=/dev/urandom of="/dev/mapper/$VOLUME" bs=1M oflag=direct status=none 2>/dev/null
	before=$(content)
	key=$(json "$DEVICE" 0 | jq -c .digests)
	reencrypt --init-only
	active "${FLAGS[$mode]}"
	want "content after --init-only" "$before" "$(content)"

	printf '%s\n' "$SECRET" >"$WORK/secret"
	: >"$WORK/log" # it may have the progress of another test case
	"$CRYPTSETUP" reencrypt --resume-only --resilience none --hotzone-size 64K \
		--active-name "$VOLUME" <"$WORK/secret" >"$WORK/log" 2>&1 &
	pid=$!
	until grep -q Progress "$WORK/log" || ! kill -0 "$pid" 2>/dev/null; do :; done
	kill -INT "$pid" 2>/dev/null
	wait "$pid"
	want "segments in the middle" 2 "$(dmsetup table "$VOLUME" | grep -c ' crypt ')" ||
		diag "$(dmsetup table "$VOLUME"; tr '\r' '\n' <"$WORK/log" | tail -n 2)"
	active "${FLAGS[$mode]}"
	want "content in the middle" "$before" "$(content)"

	reencrypt --resume-only
	active "${FLAGS[$mode]}"
	want "content after --resume-only" "$before" "$(content)"
	want "key" changed "$([ "$key" = "$(json "$DEVICE" 0 | jq -c .digests)" ] && echo same || echo changed)"
	close_volume
	silent open "${OPEN[@]}" "$VOLUME"
	want "content after reopening" "$before" "$(content)"
}

# Encryption starts from a linear table, which has no options: cryptsetup must not warn of a kernel
# without them, and a refresh sets them in the end.
encryption_under_way() {
	local header=(--header "$WORK/detached") before

	volume plain
	before=$(head -c 4M "$DEVICE" | sha256sum)
	works reencrypt -q "${FAST_KDF[@]}" --encrypt --init-only "${header[@]}" "$DEVICE"
	silent open "${header[@]}" "$DEVICE" "$VOLUME" "$NO_READ" "$NO_WRITE"
	defer close_volume
	want "flags in the status" "" "$(status_line "$VOLUME")"
	works reencrypt -q --resume-only "${header[@]}" --active-name "$VOLUME"
	silent refresh "${header[@]}" "$VOLUME" "$NO_READ" "$NO_WRITE"
	active "${FLAGS[both]}"
	want "content" "$before" "$(content)"
}

requires_cryptsetup flags target:delay jq xxd fio tar xz

for mode in no_read no_write both; do
	CASES+=("suspend_and_resume luks1 $mode" "suspend_and_resume luks2 $mode" "online_reencryption $mode")
done
for type in plain luks1 luks2; do
	CASES+=("resize $type" "refresh_sets_what_is_given $type")
done
CASES+=("refresh_sets_what_is_given luks2-aead" refresh_under_io exchanged_with_released encryption_under_way)
refused=("refresh_is_refused tcrypt" "refresh_is_refused bitlk-xts" refresh_of_loopaes_is_refused
	refresh_of_what_is_not_open other_actions_take_them)
CASES+=("${refused[@]}")
quick_cases "suspend_and_resume luks2 both" "online_reencryption both" "resize luks1" \
	"refresh_sets_what_is_given plain" "refresh_sets_what_is_given luks2-aead" \
	refresh_under_io exchanged_with_released encryption_under_way "${refused[@]}"
run
