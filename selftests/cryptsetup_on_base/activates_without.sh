#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="on a kernel without the flags every volume opens, with one warning for given options"
#
# No warning for flags in the header alone. --persistent stores what is active, and reports the other options.
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

requires_cryptsetup tar xz jq xxd
requires_no_flags

CASES=("given plain no_write" "given luks1 both" "given luks2 no_write" "given luks2-aead both"
	"given tcrypt-chain both" "given bitlk-xts both"
	"given plain both loaded --batch-mode" "given luks2 both loaded --batch-mode"
	"given luks2 both unload" "given tcrypt-chain both unload"
	"stored_only luks2 both" "stored_only luks2-aead both" "stored_only luks2 both unload"
	others_are_kept "persistent both no_read" "persistent default both" "given_in_reencryption encrypt"
	"given_in_reencryption decrypt")
short=("${CASES[@]}")
for type in "${ALL_TYPES[@]}"; do
	CASES+=("stored_only $type default" "given $type no_read" "given $type no_write unload")
done
for mode in no_read no_write; do
	CASES+=("stored_only luks2 $mode" "stored_only luks2-hmac $mode" "stored_only luks2-aead $mode unload")
done
quick_cases "${short[@]}"
run
