#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: on a kernel whose dm-crypt lacks the flags a refresh that asks for one of
# them fails and changes nothing. What only the header asks for is dropped, with
# one message, by every operation that rebuilds the table.
# Needs: root, dmsetup, null_blk, jq, xxd, dm-crypt older than 1.22.0, the patched
# cryptsetup. Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/../stress/ktap.sh"
. "$here/../stress/dm_crypt.sh"
. "$here/../cryptsetup/volumes.sh"
. "$here/../cryptsetup/header.sh"

# state: all that a refresh could have changed.
state() {
	dmsetup table "$NAME"
	dmsetup info -c --noheadings -o name,tables_loaded,suspended,readonly "$NAME"
	[ -z "$TAGS" ] || dmsetup info -c --noheadings -o name,tables_loaded,suspended,readonly "${NAME}_dif"
	header
}

# refused TYPE OPTION...: refresh with each flag, and both, beside other options.
refused() {
	local type=$1 mode before arguments=(refresh "$NAME")

	shift
	volume "$type" || return 0
	open_volume --perf-same_cpu_crypt || return
	[ "$type" != plain ] || arguments+=(-q --hash sha256)
	before=$(state)
	for mode in no_read no_write both; do
		# The options are words.
		cs "${arguments[@]}" "$@" --perf-submit_from_crypt_cpus ${OPTIONS[$mode]}
		want "exit status with ${OPTIONS[$mode]}" 1 $?
		told_once ${FLAGS[$mode]}
		want "state of the volume" "$before" "$(state)"
	done
	want "exit status of a read" 0 "$(timeout 20 head -c 4096 "/dev/mapper/$NAME" >/dev/null; echo $?)"
}

# A refused refresh must not touch what is stored either.
refused_with_stored_flags() {
	local before

	volume luks2 || return 0
	store "$DISK" no-read-workqueue
	open_volume || return
	before=$(state)
	for option in "$NO_READ" "$NO_WRITE"; do
		cs refresh "$NAME" --persistent "$option"
		want "exit status with $option" 1 $?
		want "state of the volume" "$before" "$(state)"
	done
}

# with_stored_flags TYPE: an open volume whose header asks for both.
with_stored_flags() {
	volume "$1" || return
	store "$DISK" ${STORED[both]}
	open_volume
}

refresh_drops_stored_flags() {
	with_stored_flags "$1" || return 0
	works refresh "$NAME"
	told_once no_read_workqueue no_write_workqueue
	in_force ""
	works refresh "$NAME" --perf-same_cpu_crypt
	told_once no_read_workqueue no_write_workqueue
	in_force "" same_cpu_crypt
	want "flags" "${STORED[both]}" "$(stored "$DISK")"
}

# Without them --persistent removes them: that is what its manual promises.
persistent_refresh_removes_stored_flags() {
	with_stored_flags luks2 || return 0
	works refresh "$NAME" --persistent --allow-discards
	in_force "" discards
	want "flags" allow-discards "$(stored "$DISK")"
}

resize_works_with_stored_flags() {
	with_stored_flags "$1" || return 0
	works resize "$NAME" --size 8192
	diag "${SAID:-(silent)}"
	want "sectors" 8192 "$(blockdev --getsz "/dev/mapper/$NAME")"
	in_force ""
	works resize "$NAME"
	in_force ""
	want "flags" "${STORED[both]}" "$(stored "$DISK")"
}

suspend_works_with_stored_flags() {
	with_stored_flags luks2 || return 0
	silent luksSuspend "$NAME"
	silent luksResume "$NAME"
	in_force ""
}

# Each run of cryptsetup may say it once, however many tables it loads.
reencryption_works_with_stored_flags() {
	local before stage

	with_stored_flags luks2 || return 0
	dd if=/dev/urandom of="/dev/mapper/$NAME" bs=1M oflag=direct status=none 2>/dev/null
	before=$(content)
	for stage in --init-only --resume-only; do
		works reencrypt -q "${FAST_KDF[@]}" --resilience none --active-name "$NAME" "$stage"
		SAID=$(tr '\r' '\n' <<<"$SAID" | grep -v -e '^Progress' -e '^Finished')
		# The first one only writes the header.
		[ "$stage$SAID" = --init-only ] || told_once no_read_workqueue no_write_workqueue
		in_force ""
		want "content after $stage" "$before" "$(content)"
	done
	want "flags" "${STORED[both]}" "$(stored "$DISK")"
}

require_cryptsetup jq xxd
require_no_flags

CLAIMS=()
for type in plain luks1 luks2 luks2-aead luks2-hmac; do
	CLAIMS+=("refused $type")
done
CLAIMS+=("refused luks2 --persistent" "refused luks2-aead --persistent" refused_with_stored_flags)
for type in luks2 luks2-aead luks2-hmac; do
	CLAIMS+=("refresh_drops_stored_flags $type")
done
CLAIMS+=(persistent_refresh_removes_stored_flags "resize_works_with_stored_flags luks2"
	suspend_works_with_stored_flags reencryption_works_with_stored_flags)
run_claims
