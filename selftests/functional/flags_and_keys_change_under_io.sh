#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="I/O has no error and no wrong data when other flags are loaded, or the key is wiped and set"
#
# A mapping without a valid key does not resume. The table shows keys only on request, and names those in the keyring.
# Requires: root, dmsetup, fio, null_blk; keyctl for one case.
# Risks: none.
# CPUs: 2

. "$(dirname "$0")/common.sh"

wipe_and_set() {
	local name=${MAPPED##*/}

	dmsetup suspend "$name" || broken "dmsetup suspend failed"
	want "wiping the key" "" "$(dmsetup message "$name" 0 key wipe 2>&1)"
	want "resuming without a key" failure "$(outcome dmsetup resume "$name")"
	want "key in the table" "$(printf '%0128d' 0)" \
		"$(dmsetup table --showkeys "$name" | cut -d ' ' -f 5)"
	set_and_resume
}

set_and_resume() {
	want "setting the key" "" "$(dmsetup message "${MAPPED##*/}" 0 key set "$(key_of xts)" 2>&1)"
	want "resuming" "" "$(dmsetup resume "${MAPPED##*/}" 2>&1)"
}

# io_waits_for_the_key MODE CIPHER
io_waits_for_the_key() {
	null_disk size=32 completion_nsec=20000
	crypt wiped "$2" ${FLAGS[$1]}
	during_io "$(full_or_quick 4 2)" 0 wipe_and_set --bs=16k "--size=$(full_or_quick 12 6)M" \
		--verify_backlog=32 --rate_iops=200
	want "flags at the end" "${FLAGS[$1]}" "$(arguments_of "$MAPPED")"
}

# refused_key_is_not_used MODE CIPHER: of the right length, but with a digit at its end that is not
# hexadecimal. The data shows whether part of it replaced the old key.
refused_key_is_not_used() {
	local name=$NAME-refused key

	null_disk irqmode=1
	crypt refused "$2" ${FLAGS[$1]}
	random_data 64k
	dd if="$DATA" of="$MAPPED" bs=16k oflag=direct status=none || broken "cannot write"
	key=$(key_of xts)
	dmsetup suspend "$name" || broken "dmsetup suspend failed"
	want "setting a wrong key" failure \
		"$(outcome dmsetup message "$name" 0 key set "$(rev <<<"${key:2}")xx")"
	want "resuming after that" failure "$(outcome dmsetup resume "$name")"
	set_and_resume
	want "data" same "$(dd if="$MAPPED" bs=16k count=4 iflag=direct status=none |
		cmp - "$DATA" && echo same)"
}

key_is_hidden_unless_asked_for() {
	local key

	key=$(key_of xts)
	crypt hidden aes-xts-plain64 ${FLAGS[both]}
	want "key" "$key" "$(dmsetup table --showkeys "$NAME-hidden" | cut -d ' ' -f 5)"
	want "key" "${key//?/0}" "$(dmsetup table "$NAME-hidden" | cut -d ' ' -f 5)"
}

key_in_the_keyring_is_named() {
	local KEY=":32:logon:$NAME:key" id

	command -v keyctl >/dev/null || skip "needs the program keyctl"
	id=$(printf '%032d' 7 | keyctl padd logon "$NAME:key" @u 2>/dev/null) || skip "needs CONFIG_KEYS"
	defer keyctl unlink "$id" @u
	keyctl link @u @s 2>/dev/null # where the session does not see the user's keys
	crypt named aes-xts-plain64 ${FLAGS[both]}
	want "key" "$KEY" "$(dmsetup table --showkeys "$NAME-named" | cut -d ' ' -f 5)"
}

# switch_flags NUMBER: as an administrator would, with I/O in flight.
switch_flags() {
	local name=${MAPPED##*/} flags=${FLAGS[${MODES[$1 % 4]}]}

	dmsetup load "$name" --table "$(crypt_table "$CIPHER" $flags)" &&
		dmsetup suspend "$name" && dmsetup resume "$name"
	want "status of switching to: $flags" 0 $?
	want "flags after that" "$flags" "$(arguments_of "$name")"
}

# every_switch_keeps_data IRQMODE CIPHER: two rounds through all modes, or more.
every_switch_keeps_data() {
	local CIPHER=$2

	null_disk size=64 "irqmode=$1" completion_nsec=20000
	crypt switched "$CIPHER"
	during_io 8 "$(full_or_quick 60 0)" switch_flags --bsrange=4k-64k "--size=$(full_or_quick 24 4)M" \
		--verify_backlog=64 --rate_iops=100
}

requires cmp dd fio rev modes async

for mode in "${MODES[@]}"; do
	CASES+=("io_waits_for_the_key $mode aes-xts-plain64" "refused_key_is_not_used $mode aes-xts-plain64")
done
CASES+=("io_waits_for_the_key both async-xts" key_is_hidden_unless_asked_for key_in_the_keyring_is_named
	"every_switch_keeps_data 1 aes-xts-plain64" "every_switch_keeps_data 2 aes-xts-plain64"
	"every_switch_keeps_data 2 async-xts")
quick_cases "io_waits_for_the_key both aes-xts-plain64" "refused_key_is_not_used both aes-xts-plain64" \
	key_is_hidden_unless_asked_for key_in_the_keyring_is_named \
	"every_switch_keeps_data 2 aes-xts-plain64" "every_switch_keeps_data 2 async-xts"
run
