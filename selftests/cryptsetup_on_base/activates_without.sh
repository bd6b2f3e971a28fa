#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: on a kernel whose dm-crypt lacks the flags every volume opens all the
# same. One warning says that options which were given are not in force, unless
# --batch-mode is given; of those in the header alone nothing is said. --persistent
# stores what is in force, and loses no stored flag that was given again.
# Needs: root, dmsetup, null_blk, jq, xxd, dm-crypt older than 1.22.0, the patched
# cryptsetup and the images of its tests. Endangers: dm-crypt is unloaded.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/../cryptsetup/volumes.sh"
. "$here/../cryptsetup/header.sh"

# With the module gone its version is unknown until something has loaded it.
unload() {
	modprobe -r dm-crypt || broken "cannot unload dm-crypt"
	! dmsetup targets | grep -q '^crypt ' || broken "dm-crypt is still there"
}

# opened_without OPTION...: none of the flags is in force, and data can be read.
opened_without() {
	open_volume "$@" || return
	in_force ""
	want "exit status of a read" 0 "$(content >/dev/null; echo $?)"
}

given() {
	volume "$1" || return 0
	[ "${OPEN[0]}" != -q ] || OPEN=("${OPEN[@]:1}")
	# The options are words.
	opened_without ${OPTIONS[$2]}
	warned
}

given_while_unloaded() {
	volume "$1" || return 0
	[ "${OPEN[0]}" != -q ] || OPEN=("${OPEN[@]:1}")
	unload
	opened_without ${OPTIONS[$2]}
	warned
}

given_in_batch_mode() {
	volume "$1" || return 0
	opened_without --batch-mode ${OPTIONS[both]}
	want "messages" "" "$SAID"
}

stored_only() {
	volume "$1" || return 0
	store "$DISK" ${STORED[$2]}
	opened_without
	want "messages" "" "$SAID"
}

stored_only_while_unloaded() {
	volume "$1" || return 0
	store "$DISK" ${STORED[$2]}
	unload
	opened_without
	want "messages" "" "$SAID"
}

# Other options stay in force.
others_are_kept() {
	volume luks2 || return 0
	store "$DISK" allow-discards no-write-workqueue
	open_volume --perf-same_cpu_crypt "$NO_READ" || return
	warned
	in_force "" discards same_cpu_crypt
}

no_word_without_them() {
	volume "$1" || return 0
	open_volume
	want "messages" "" "$SAID"
}

# persistent STORED GIVEN LEFT: modes. What this kernel has is stored beside them.
persistent() {
	volume luks2 || return 0
	store "$DISK" same-cpu-crypt ${STORED[$1]}
	open_volume --persistent --allow-discards ${OPTIONS[$2]} || return
	warned
	in_force "" discards
	want "copies" "valid valid" "$(validity "$DISK")"
	want "stored flags" "allow-discards${STORED[$3]:+ ${STORED[$3]}}" "$(stored "$DISK")"
}

require_cryptsetup tar xz jq xxd
require_no_flags

CLAIMS=("given plain no_write" "given luks1 both" "given luks2 no_write" "given luks2-aead both"
	"given tcrypt-chain both" "given bitlk-xts both" "given_in_batch_mode plain" "given_in_batch_mode luks2"
	"given_while_unloaded luks2 both" "given_while_unloaded tcrypt-chain both"
	"stored_only luks2 both" "stored_only luks2-aead both" "stored_only_while_unloaded luks2 both"
	others_are_kept "persistent both both both" "persistent both no_read no_read" "persistent no_read both no_read"
	"persistent default both default")
short=("${CLAIMS[@]}")
for type in "${ALL_TYPES[@]}"; do
	CLAIMS+=("no_word_without_them $type" "given $type no_read" "given_while_unloaded $type no_write")
done
for mode in no_read no_write; do
	CLAIMS+=("stored_only luks2 $mode" "stored_only luks2-hmac $mode" "stored_only_while_unloaded luks2-aead $mode")
done
quick_claims "${short[@]}"
run_claims
