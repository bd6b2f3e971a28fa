#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a key is in the kernel's memory while it is set, and not any more once it was
# wiped, replaced, or its mapping removed.
# Needs: root, dmsetup, python3, /proc/kcore.
# Endangers: nothing but devices of its own; all memory is read.
# Guest: emulated
# Kernel arguments: init_on_free=1

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# One that no other test has.
secret() {
	local i

	for ((i = 1; i <= 64; i++)); do
		printf '%02x' $((i * 11 % 256 ^ $1))
	done
}

# in_memory WHEN EXPECTED
in_memory() {
	want "the key is in memory $1" "$2" "$("$here/key_in_memory.py" "${SECRET:0:8}" "$DIGEST")"
}

# is_gone CIPHER
is_gone() {
	local name=$PREFIX-secret depth=${#ktap_cleanups[@]}

	null_disk secret 1
	map secret "$(crypt_table "$DISK" "$1" "$SECRET")" || return 0
	in_memory "while it is set" yes
	dmsetup suspend "$name" && dmsetup message "$name" 0 key wipe || broken "cannot wipe the key"
	in_memory "after a wipe" no
	dmsetup message "$name" 0 key set "$SECRET" && dmsetup message "$name" 0 key set "$(key 64)" &&
		dmsetup resume "$name" || broken "cannot set the key"
	in_memory "after another was set" no
	undo "$depth"
	null_disk secret 1
	map secret "$(crypt_table "$DISK" "$1" "$SECRET")"
	undo "$depth"
	in_memory "after the mapping was removed" no
}

needs python3 sha256sum null_blk modes
[ -r /proc/kcore ] || skip_all "needs /proc/kcore"
SECRET=$(secret 90)
FIRST=${SECRET:0:64}
DIGEST=$(printf '%b' "${FIRST//??/\\x&}" | sha256sum | cut -d ' ' -f 1)

CLAIMS=("is_gone aes-xts-plain64")
! takes_cipher capi:xts-aes-lib-plain64 64 || CLAIMS+=("is_gone capi:xts-aes-lib-plain64")
run_claims
