#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: on a kernel whose dm-crypt lacks the flags every volume opens all the
# same, and one message says which options were dropped and what they need,
# whether they were given or are stored in the header.
# Needs: root, dmsetup, null_blk, jq, xxd, dm-crypt older than 1.22.0, the patched
# cryptsetup and the images of its tests. Endangers: dm-crypt is unloaded.

here=$(dirname "$0")
. "$here/../stress/ktap.sh"
. "$here/../stress/dm_crypt.sh"
. "$here/../cryptsetup/volumes.sh"
. "$here/../cryptsetup/header.sh"

# With the module gone its version is unknown until the very table with the options
# has loaded it.
unload() {
	modprobe -r dm-crypt || broken "cannot unload dm-crypt"
	! dmsetup targets | grep -q '^crypt ' || broken "dm-crypt is still there"
}

# opened_without MODE OPTION...: open, told of the mode's flags.
opened_without() {
	local mode=$1

	shift
	open_volume "$@" || return
	# The flags are words.
	told_once ${FLAGS[$mode]}
	in_force ""
	want "exit status of a read" 0 "$(content >/dev/null; echo $?)"
}

given() {
	volume "$1" || return 0
	opened_without "$2" ${OPTIONS[$2]}
}

given_while_unloaded() {
	volume "$1" || return 0
	unload
	opened_without "$2" ${OPTIONS[$2]}
}

stored_only() {
	volume "$1" || return 0
	store "$DISK" ${STORED[$2]}
	opened_without "$2"
}

stored_only_while_unloaded() {
	volume "$1" || return 0
	store "$DISK" ${STORED[$2]}
	unload
	opened_without "$2"
}

one_given_one_stored() {
	volume luks2 || return 0
	store "$DISK" no-read-workqueue
	opened_without both "$NO_WRITE"
}

# Other options stay in force, and nothing is said of them.
others_are_kept() {
	volume luks2 || return 0
	store "$DISK" allow-discards no-write-workqueue
	open_volume --perf-same_cpu_crypt || return
	told_once no_write_workqueue
	in_force "" discards same_cpu_crypt
}

no_word_without_them() {
	volume "$1" || return 0
	open_volume
	want "messages" "" "$SAID"
}

# What another kernel can use must not be lost by an open here.
stored_flags_are_left() {
	local before

	volume luks2 || return 0
	store "$DISK" ${STORED[$1]}
	before=$(header)
	open_volume --persistent ${OPTIONS[$2]} || return
	want "header" "$before" "$(header)"
	want "flags" "${STORED[$1]}" "$(stored "$DISK")"
	want "messages" "cannot make flags persistent WARNING" \
		"$(grep -o -e WARNING -e "cannot make flags persistent" <<<"$SAID" | tr '\n' ' ' | sed 's/ $//')" ||
		diag "$SAID"
	in_force ""
}

require_cryptsetup tar xz jq xxd
require_no_flags

CLAIMS=()
for type in "${ALL_TYPES[@]}"; do
	CLAIMS+=("no_word_without_them $type" "given $type both")
done
CLAIMS+=("given plain no_read" "given luks2 no_write" "given tcrypt-chain no_write")
for mode in no_read no_write both; do
	CLAIMS+=("stored_only luks2 $mode")
done
for type in plain luks1 luks2 luks2-aead loopaes tcrypt-chain bitlk-elephant; do
	CLAIMS+=("given_while_unloaded $type both")
done
CLAIMS+=("stored_only luks2-aead both" "stored_only luks2-hmac both"
	"stored_only_while_unloaded luks2 both" "stored_only_while_unloaded luks2-aead no_read"
	one_given_one_stored others_are_kept "stored_flags_are_left both no_read"
	"stored_flags_are_left no_read both" "stored_flags_are_left default both")
quick_claims "no_word_without_them luks2" "given plain both" "given luks2-aead both" \
	"given tcrypt-chain no_write" "stored_only luks2 both" "given_while_unloaded luks2 both" \
	"stored_only_while_unloaded luks2-aead no_read" one_given_one_stored others_are_kept \
	"stored_flags_are_left both no_read"
run_claims
