#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="a key that was wiped or replaced, or whose mapping was removed, is no longer in memory"
#
# Whichever code of the kernel encrypts.
# Requires: root, dmsetup, null_blk, /dev/mem with all of memory.
# Risks: a crash. The test reads everything between the ends of memory, where devices may be.

. "$(dirname "$0")/common.sh"

MEMORY=$(dirname "$0")/memory.py

# random_key BYTES: print hexadecimal digits; no program has another form of the key.
random_key() {
	local i

	for ((i = 0; i < $1; i++)); do
		printf '%02x' $((RANDOM % 256))
	done
}

# times KEY: print how often memory has the first 16 bytes of either half.
times() { "$MEMORY" "${1:0:32}" "${1:${#1}/2:32}"; }

# keys_leave_memory CIPHER KEY_BYTES
keys_leave_memory() {
	local name=$NAME-keys KEY new

	null_disk size=1
	KEY=$(random_key "$2") new=$(random_key "$2")
	crypt keys "$1"
	# Otherwise the search finds no key at all.
	[ "$(times "$KEY")" -gt 0 ] || broken "memory has no key that is in use"
	dmsetup suspend "$name" && dmsetup message "$name" 0 key wipe || broken "the key cannot be wiped"
	want "times that memory has the wiped key" 0 "$(times "$KEY")"
	dmsetup message "$name" 0 key set "$KEY" && dmsetup message "$name" 0 key set "$new" &&
		dmsetup resume "$name" || broken "the key cannot be set"
	want "times that memory has the replaced key" 0 "$(times "$KEY")"
	undo_last
	want "times that memory has the key of the removed mapping" 0 "$(times "$new")"
}

requires python3
"$MEMORY" 00 >/dev/null 2>&1 || skip "needs /dev/mem with all of memory"

CASES=("keys_leave_memory aes-xts-plain64 64" "keys_leave_memory aes-cbc-essiv:sha256 32"
	"keys_leave_memory serpent-xts-plain64 64")
quick_cases "keys_leave_memory aes-xts-plain64 64"
run
