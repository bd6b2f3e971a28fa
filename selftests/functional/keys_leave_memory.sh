#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a key that is wiped, or replaced, or whose mapping is removed, leaves memory,
# whichever code of the kernel serves the mapping.
# Needs: root, dmsetup, null_blk, /dev/mem with all of memory.
# Endangers: a real machine. Reads all that lies between the ends of memory, where devices may be.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# random_key BYTES: in hexadecimal digits; no program has another form of it.
random_key() {
	local i

	for ((i = 0; i < $1; i++)); do
		printf '%02x' $((RANDOM % 256))
	done
}

# times KEY: how often memory has the first 16 bytes of either half.
times() {
	"$here/memory.py" "${1:0:32}" "${1:${#1}/2:32}"
}

# leaves_memory CIPHER KEY_BYTES
leaves_memory() {
	local name=$PREFIX-keys old new

	null_disk keys 1
	old=$(random_key "$2") new=$(random_key "$2")
	map keys "$(crypt_table "$DISK" "$1" "$old")" || return 0
	# Else the search would not find one that is left either.
	[ "$(times "$old")" -gt 0 ] || broken "memory has no key that is in use"
	dmsetup suspend "$name" && dmsetup message "$name" 0 key wipe || broken "the key cannot be wiped"
	want "times that memory has the key that was wiped" 0 "$(times "$old")"
	dmsetup message "$name" 0 key set "$old" && dmsetup message "$name" 0 key set "$new" &&
		dmsetup resume "$name" || broken "the key cannot be set"
	want "times that memory has the key that was replaced" 0 "$(times "$old")"
	undo_last
	want "times that memory has the key of a mapping that was removed" 0 "$(times "$new")"
	no_complaints
}

needs null_blk python3
"$here/memory.py" 00 >/dev/null 2>&1 || skip_all "needs /dev/mem with all of memory"

CLAIMS=("leaves_memory aes-xts-plain64 64" "leaves_memory aes-cbc-essiv:sha256 32"
	"leaves_memory serpent-xts-plain64 64")
quick_claims "leaves_memory aes-xts-plain64 64"
run_claims
