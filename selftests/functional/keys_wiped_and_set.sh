#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a mapping under load can be suspended, its key wiped and set again, in
# every mode: it does not resume without a key, and the I/O that waited goes on. Nor
# does it resume after a new key was refused, until one is set.
# Needs: root, dmsetup, fio, null_blk. Endangers: nothing but devices of its own.
# CPUs: 2

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

ROUNDS=$(full_or_quick 4 2)
MIB=$(full_or_quick 12 6) # of one run of the I/O

wipe_and_set() {
	local name=$PREFIX-wiped key

	key=$(key 64)
	dmsetup suspend "$name" || broken "dmsetup suspend failed"
	want "wiping the key" "" "$(dmsetup message "$name" 0 key wipe 2>&1)"
	want "resuming without a key" failure "$(outcome dmsetup resume "$name")"
	want "key in the table" "$(printf '%0128d' 0)" \
		"$(dmsetup table --showkeys "$name" | cut -d ' ' -f 5)"
	want "setting the key" "" "$(dmsetup message "$name" 0 key set "$key" 2>&1)"
	want "resuming" "" "$(dmsetup resume "$name" 2>&1)"
}

# io_waits_for_the_key MODE CIPHER
io_waits_for_the_key() {
	null_disk wiped 32 irqmode=2 completion_nsec=20000
	map_flags wiped "$2" 64 "$1" || return 0
	beside_io "$ROUNDS" 0 wipe_and_set --bs=16k "--size=${MIB}M" --verify_backlog=32 \
		--rate_iops=200
	want "flags at the end" "${FLAGS[$1]}" "$(arguments_of "$PREFIX-wiped")"
	no_complaints
}

# refused_key_is_none MODE CIPHER: of the right length, but not hexadecimal to the end. That
# shows when part of it is in the place of the old one.
refused_key_is_none() {
	local name=$PREFIX-refused key data

	null_disk refused 16 irqmode=1
	map_flags refused "$2" 64 "$1" || return 0
	data=$(mktemp) || broken "mktemp failed"
	defer rm "$data"
	head -c 64k /dev/urandom >"$data"
	dd if="$data" of="$MAPPED" bs=16k oflag=direct status=none || broken "cannot write"
	key=$(key 64)
	dmsetup suspend "$name" || broken "dmsetup suspend failed"
	want "setting a key that is none" failure \
		"$(outcome dmsetup message "$name" 0 key set "$(rev <<<"${key:2}")xx")"
	want "resuming after that" failure "$(outcome dmsetup resume "$name")"
	want "setting the key" "" "$(dmsetup message "$name" 0 key set "$key" 2>&1)"
	want "resuming" "" "$(dmsetup resume "$name" 2>&1)"
	want "data" same "$(dd if="$MAPPED" bs=16k count=4 iflag=direct status=none |
		cmp - "$data" && echo same)"
	no_complaints
}

needs cmp dd fio rev null_blk modes async

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("io_waits_for_the_key $mode aes-xts-plain64" "refused_key_is_none $mode aes-xts-plain64")
done
CLAIMS+=("io_waits_for_the_key both async-xts")
quick_claims "io_waits_for_the_key both aes-xts-plain64" "refused_key_is_none both aes-xts-plain64"
run_claims
