#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="on a kernel without the flags a refresh with one of them fails and changes nothing"
#
# With one message besides that of device-mapper. Every operation that rebuilds the table drops flags in the header
# without a message.
# Requires: root, dmsetup, null_blk, jq, xxd, dm-crypt older than 1.22.0, the patched cryptsetup.
# Risks: none.

. "$(dirname "$0")/../cryptsetup/volumes.sh"

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
		printed_refusal
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

requires_cryptsetup jq xxd
requires_no_flags

for type in plain luks1 luks2 luks2-aead luks2-hmac; do
	CASES+=("refused $type")
done
CASES+=("refused luks2 --persistent" "refused luks2-aead --persistent" refused_with_stored_flags)
for type in luks2 luks2-aead luks2-hmac; do
	CASES+=("actions_drop_stored_flags $type")
done
CASES+=(persistent_refresh_removes_stored_flags reencryption_works_with_stored_flags)
run
