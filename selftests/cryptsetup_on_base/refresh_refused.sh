#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: on a kernel whose dm-crypt lacks the flags a refresh that asks for one of
# them fails with one message, before a passphrase is asked for or a key derived,
# and changes nothing. What only the header asks for is dropped, without a word, by
# every operation that rebuilds the table.
# Needs: root, dmsetup, null_blk, jq, xxd, dm-crypt older than 1.22.0, the patched
# cryptsetup. Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
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
		told_refused
		want "state of the volume" "$before" "$(state)"
	done
	want "exit status of a read" 0 "$(timeout 20 head -c 4096 "/dev/mapper/$NAME" >/dev/null; echo $?)"
}

# refused_before_a_key_is_derived TYPE [ARGUMENT...]: a wrong passphrase is no matter. Where it
# is read from standard input, is it left there? (Not of plain: its refresh asks first.)
refused_before_a_key_is_derived() {
	local type=$1 said left

	shift
	volume "$type" || return 0
	open_volume || return
	said=$(printf 'wrong\n' | { "$CRYPTSETUP" refresh "$NAME" "$NO_READ" "$@" 2>&1; echo "status $?"; cat; })
	left=$(printf '%s\n' "Requested dm-crypt performance options are not supported." "status 1" wrong)
	want "messages, status and what was left to read" "$left" "$said"
}

# A token that works, and one whose key is not there.
refused_with_a_token() {
	local key=$PREFIX-token said

	volume luks2 || return 0
	setup token add "$DISK" --key-description "$key"
	open_volume || return
	for with in without_its_key with_its_key; do
		if [ $with = with_its_key ]; then
			keyctl padd user "$key" @u <<<"$SECRET" >/dev/null || broken "keyctl failed"
			defer keyctl purge user "$key"
		fi
		said=$(printf 'wrong\n' | { "$CRYPTSETUP" refresh "$NAME" "$NO_WRITE" 2>&1; echo "status $?"; cat; })
		want "messages, status and what was left to read, $with" \
			"$(printf '%s\n' "Requested dm-crypt performance options are not supported." "status 1" wrong)" "$said"
	done
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
	silent refresh "$NAME"
	in_force ""
	silent refresh "$NAME" --perf-same_cpu_crypt
	in_force "" same_cpu_crypt
	want "flags" "${STORED[both]}" "$(stored "$DISK")"
}

# Without them --persistent removes them: that is what its manual promises.
persistent_refresh_removes_stored_flags() {
	with_stored_flags luks2 || return 0
	silent refresh "$NAME" --persistent --allow-discards
	in_force "" discards
	want "flags" allow-discards "$(stored "$DISK")"
}

resize_works_with_stored_flags() {
	with_stored_flags "$1" || return 0
	silent resize "$NAME" --size 8192
	want "sectors" 8192 "$(blockdev --getsz "/dev/mapper/$NAME")"
	in_force ""
	silent resize "$NAME"
	in_force ""
	want "flags" "${STORED[both]}" "$(stored "$DISK")"
}

suspend_works_with_stored_flags() {
	with_stored_flags luks2 || return 0
	silent luksSuspend "$NAME"
	silent luksResume "$NAME"
	in_force ""
}

reencryption_works_with_stored_flags() {
	local before stage

	with_stored_flags luks2 || return 0
	dd if=/dev/urandom of="/dev/mapper/$NAME" bs=1M oflag=direct status=none 2>/dev/null
	before=$(content)
	for stage in --init-only --resume-only; do
		works reencrypt -q "${FAST_KDF[@]}" --resilience none --active-name "$NAME" "$stage"
		SAID=$(tr '\r' '\n' <<<"$SAID" | grep -v -e '^Progress' -e '^Finished')
		want "messages of $stage" "" "$SAID"
		in_force ""
		want "content after $stage" "$before" "$(content)"
	done
	want "flags" "${STORED[both]}" "$(stored "$DISK")"
}

require_cryptsetup jq xxd keyctl
require_no_flags

CLAIMS=("refused_before_a_key_is_derived luks1" "refused_before_a_key_is_derived luks2"
	"refused_before_a_key_is_derived luks2 --key-file /dev/null" refused_with_a_token)
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
