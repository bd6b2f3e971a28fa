#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: EBOIV is what is on disks already: the sector's offset in bytes, encrypted with the
# key of the data. It is computed here by a mapping of single blocks (ECB) with that key.
# Needs: root, dmsetup, null_blk.
# Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# first_block DEVICE SECTOR: as hexadecimal digits.
first_block() {
	dd if="$1" bs=512 skip="$2" count=1 iflag=direct status=none | head -c 16 | od -An -tx1 | tr -d ' \n'
}

# encrypted HEX: a block in ECB mode with the key, as hexadecimal digits.
encrypted() {
	local bytes=${1//??/\\x&}

	{ printf '%b' "$bytes" && head -c 496 /dev/zero; } |
		dd of="$BLOCKS" bs=512 count=1 oflag=direct iflag=fullblock status=none
	first_block "$DISK" 0
}

# of_sector NUMBER: a first block of zeroes there is the IV, encrypted once more.
of_sector() {
	local offset expected

	offset=$(printf '%016x' $(($1 * 512)) | fold -w 2 | tac | tr -d '\n')0000000000000000
	any_disk iv 4
	map blocks "$(crypt_table "$DISK" aes-ecb-null "$(key 32)")" || return 0
	BLOCKS=$MAPPED
	expected=$(encrypted "$(encrypted "$offset")")
	dd if=/dev/zero of="$DISK" bs=512 count=1 oflag=direct status=none # where it was left
	map eboiv "$(crypt_table "$DISK" aes-cbc-eboiv "$(key 32)" ${FLAGS[both]})" || return 0
	dd if=/dev/zero of="$MAPPED" bs=512 seek="$1" count=1 oflag=direct status=none ||
		broken "dd failed"
	want "first block of sector $1" "$expected" "$(first_block "$DISK" "$1")"
}

needs modes od fold tac
CLAIMS=("of_sector 0" "of_sector 1" "of_sector 4099")
run_claims
