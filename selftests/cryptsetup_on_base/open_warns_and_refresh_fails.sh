#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="on a kernel without the flags an open with them warns once, and a refresh fails and changes nothing"
#
# Every volume opens. No warning for flags in the header alone: every operation that rebuilds the table drops them
# without a message. --persistent stores what is active, and reports the other options.
# Requires: root, dmsetup, null_blk, jq, xxd, dm-crypt older than 1.22.0, the patched cryptsetup and the
# images of its tests.
# Risks: dm-crypt is unloaded.

. "$(dirname "$0")/../cryptsetup/volumes.sh"

# opened_without OPTION...: no flag is active, and data can be read.
opened_without() {
	open_volume "$@"
	active ""
	want "exit status of a read" 0 "$(content >/dev/null; echo $?)"
}

# given TYPE MODE [unload|loaded [OPTION]]
given() {
	volume "$1"
	[ "$3" != unload ] || unload
	# The options are words.
	opened_without $4 ${OPTIONS[$2]}
	warned
}

# The table of a volume that is being encrypted has only a linear segment, which takes no options; that of a volume
# that is being decrypted has a crypt segment.
given_in_reencryption() {
	local header=(--header "$WORK/detached")

	volume plain
	[ "$1" != decrypt ] || setup luksFormat -q --type luks2 "${FAST_KDF[@]}" "${header[@]}" "$DEVICE"
	setup reencrypt -q "${FAST_KDF[@]}" "--$1" --init-only "${header[@]}" "$DEVICE"
	OPEN=("${header[@]}" "$DEVICE")
	open_volume "$NO_READ" "$NO_WRITE"
	if [ "$1" = decrypt ]; then warned; else want "messages" "" "$SAID"; fi
}

# stored_only TYPE MODE [unload]: nothing is stored in mode default, for types that cannot.
stored_only() {
	volume "$1"
	[ "$2" = default ] || store "$DEVICE" ${STORED[$2]}
	${3:-:}
	opened_without
	want "messages" "" "$SAID"
}

# Other options stay active.
others_are_kept() {
	volume luks2
	store "$DEVICE" allow-discards no-write-workqueue
	open_volume --perf-same_cpu_crypt "$NO_READ"
	warned
	active "" discards same_cpu_crypt
}

# persistent STORED GIVEN: modes. Other options are stored too.
persistent() {
	volume luks2
	store "$DEVICE" same-cpu-crypt ${STORED[$1]}
	open_volume --persistent --allow-discards ${OPTIONS[$2]}
	warned ${OPTIONS[$2]}
	active "" discards
	want "copies" "valid valid" "$(validity "$DEVICE")"
	want "stored flags" allow-discards "$(stored "$DEVICE")"
}

# state: print everything that a refresh could have changed.
state() {
	dmsetup table "$VOLUME"
	dmsetup info -c --noheadings -o name,tables_loaded,suspended,readonly "$VOLUME"
	[ -z "$TAGS" ] || dmsetup info -c --noheadings -o name,tables_loaded,suspended,readonly "${VOLUME}_dif"
	header
}

# refused TYPE OPTION...: refresh with each flag, and both, and with other options.
refused() {
	local type=$1 mode before arguments=(refresh "$VOLUME")

	shift
	volume "$type"
	open_volume --perf-same_cpu_crypt
	[ "$type" != plain ] || arguments+=(-q --hash sha256)
	before=$(state)
	for mode in no_read no_write both; do
		# The options are words.
		cs "${arguments[@]}" "$@" --perf-submit_from_crypt_cpus ${OPTIONS[$mode]}
		want "exit status with ${OPTIONS[$mode]}" 1 $?
		# libcryptsetup prints one message besides those of device-mapper.
		want "message" "Requested dm-crypt performance options may not be supported." \
			"$(grep -v -e '^device-mapper:' -e '^Failed to reload device' <<<"$SAID")"
		want "messages at standard error" "$SAID" "$ERRORS"
		want "state of the volume" "$before" "$(state)"
	done
	want "exit status of a read" 0 "$(timeout 20 head -c 4096 "/dev/mapper/$VOLUME" >/dev/null; echo $?)"
}

# A refused refresh must not touch what is stored either.
refused_with_stored_flags() {
	local before

	volume luks2
	store "$DEVICE" no-read-workqueue
	open_volume
	before=$(state)
	for option in "$NO_READ" "$NO_WRITE"; do
		cs refresh "$VOLUME" --persistent "$option"
		want "exit status with $option" 1 $?
		want "state of the volume" "$before" "$(state)"
	done
}

# with_stored_flags TYPE: create and open a volume whose header asks for both.
with_stored_flags() {
	volume "$1"
	store "$DEVICE" ${STORED[both]}
	open_volume
}

# silent_without ARGUMENT...: no flag is active after this action, and both are stored.
silent_without() {
	silent "$@"
	active ""
	want "flags" "${STORED[both]}" "$(stored "$DEVICE")"
}

# actions_drop_stored_flags TYPE
actions_drop_stored_flags() {
	with_stored_flags "$1"
	silent_without refresh "$VOLUME"
	if [ "$1" = luks2 ]; then
		silent_without resize "$VOLUME" --size 8192
		want "sectors" 8192 "$(blockdev --getsz "/dev/mapper/$VOLUME")"
		silent_without resize "$VOLUME"
		silent luksSuspend "$VOLUME"
		silent_without luksResume "$VOLUME"
	fi
	silent refresh "$VOLUME" --perf-same_cpu_crypt
	active "" same_cpu_crypt
	want "flags" "${STORED[both]}" "$(stored "$DEVICE")"
}

# --persistent without the flags removes them, as its manual says.
persistent_refresh_removes_stored_flags() {
	with_stored_flags luks2
	silent refresh "$VOLUME" --persistent --allow-discards
	active "" discards
	want "flags" allow-discards "$(stored "$DEVICE")"
}

reencryption_works_with_stored_flags() {
	local before stage

	with_stored_flags luks2
	dd if=/dev/urandom of="/dev/mapper/$VOLUME" bs=1M oflag=direct status=none 2>/dev/null
	before=$(content)
	for stage in --init-only --resume-only; do
		works reencrypt -q "${FAST_KDF[@]}" --resilience none --active-name "$VOLUME" "$stage"
		SAID=$(tr '\r' '\n' <<<"$SAID" | grep -v -e '^Progress' -e '^Finished')
		want "messages of $stage" "" "$SAID"
		active ""
		want "content after $stage" "$before" "$(content)"
	done
	want "flags" "${STORED[both]}" "$(stored "$DEVICE")"
}

requires_cryptsetup tar xz jq xxd
requires_no_flags

CASES=("given plain no_write" "given luks1 both" "given luks2 no_write" "given luks2-aead both"
	"given tcrypt-chain both" "given bitlk-xts both"
	"given plain both loaded --batch-mode" "given luks2 both loaded --batch-mode"
	"given luks2 both unload" "given tcrypt-chain both unload"
	"stored_only luks2 both" "stored_only luks2-aead both" "stored_only luks2 both unload"
	others_are_kept "persistent both no_read" "persistent default both" "given_in_reencryption encrypt"
	"given_in_reencryption decrypt" "refused luks2 --persistent" "refused luks2-aead --persistent"
	refused_with_stored_flags persistent_refresh_removes_stored_flags reencryption_works_with_stored_flags)
for type in luks2 luks2-aead luks2-hmac; do
	CASES+=("actions_drop_stored_flags $type" "refused $type")
done
CASES+=("refused plain" "refused luks1")
short=("${CASES[@]}")
for type in "${ALL_TYPES[@]}"; do
	CASES+=("stored_only $type default" "given $type no_read" "given $type no_write unload")
done
for mode in no_read no_write; do
	CASES+=("stored_only luks2 $mode" "stored_only luks2-hmac $mode" "stored_only luks2-aead $mode unload")
done
quick_cases "${short[@]}"
run
