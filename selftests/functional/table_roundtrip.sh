#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a dm-crypt table read back is the table given, in its canonical form,
# for every combination of no_read_workqueue and no_write_workqueue with the
# other optional arguments, in any order and case.
# Needs: root, dmsetup, null_blk or loop. Endangers: nothing but devices of its own.
# CPUs: 1

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# The order in which the kernel prints them; integrity: stands before sector_size:.
CANONICAL=(allow_discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue
	no_write_workqueue sector_size:4096 iv_large_sectors)
CIPHER=aes-xts-plain64
SEGMENT=64

# read_back TABLE: load it into the mapping's inactive slot, print what it says.
read_back() {
	dmsetup load "$NAME" <<<"$1" && dmsetup table --inactive --showkeys "$NAME"
}

# line INDEX ARGUMENTS: one of a table's lines, SEGMENT sectors long, in $LINE.
line() {
	local start=$(($1 * SEGMENT))

	# The arguments are words.
	set -- $2
	LINE="$start $SEGMENT crypt $CIPHER $KEY 0 $NUMBERS $start${1:+ $# $*}"
}

# same_table EXPECTED GIVEN: both as optional arguments.
same_table() {
	local expected

	line 0 "$1"
	expected=$LINE
	line 0 "$2"
	want "table after: $2" "$expected" "$(read_back "$LINE")"
}

# with_other_arguments MODE: the mode's flags with every subset of the others,
# each as one line of a single table.
with_other_arguments() {
	local subset i word lines=0 arguments flags table=""

	for ((subset = 0; subset < 1 << ${#CANONICAL[@]}; subset++)); do
		arguments="" flags=""
		for ((i = 0; i < ${#CANONICAL[@]}; i++)); do
			((subset >> i & 1)) || continue
			word=${CANONICAL[i]}
			arguments+=" $word"
			case $word in no_*_workqueue) flags+=" $word" ;; esac
		done
		[ "${flags# }" = "${FLAGS[$1]}" ] || continue
		line $lines "$arguments"
		table+=$LINE$'\n'
		lines=$((lines + 1))
	done
	want "combinations" 32 $lines
	want "table" "${table%$'\n'}" "$(read_back "$table")"
}

any_order() {
	local reversed

	reversed=$(printf '%s\n' "${CANONICAL[@]}" | tac | tr '\n' ' ')
	same_table "${CANONICAL[*]}" "$reversed"
	same_table "no_read_workqueue no_write_workqueue" "no_write_workqueue no_read_workqueue"
	same_table "same_cpu_crypt no_write_workqueue" "no_write_workqueue same_cpu_crypt"
}

any_case() {
	same_table "no_read_workqueue no_write_workqueue" "NO_READ_WORKQUEUE No_Write_Workqueue"
}

given_twice_is_shown_once() {
	same_table "no_read_workqueue" "no_read_workqueue No_Read_Workqueue"
}

# A table that was read back is accepted again, and says the same.
accepted_again() {
	local first

	line 0 "${CANONICAL[*]}"
	first=$(read_back "$LINE")
	want "table" some "${first:+some}"
	want "table loaded from a read-back" "$first" "$(read_back "$first")"
}

# Where integrity: stands shows only with a device below that stores tags.
with_integrity() {
	local mode CIPHER="capi:gcm(aes)-random" KEY NUMBERS arguments

	if ! dmsetup targets | grep -q ^integrity && ! modprobe -q dm-integrity; then
		skip "needs the device mapper target integrity"
		return
	fi
	KEY=$(key 32)
	integrity_disk "$DISK" 28 4096
	NUMBERS=$(numbers_of "$TAGGED")
	defer dmsetup clear "$NAME"
	for mode in "${MODES[@]}"; do
		arguments="same_cpu_crypt submit_from_crypt_cpus ${FLAGS[$mode]}"
		arguments+=" integrity:28:aead sector_size:4096"
		same_table "$arguments" "$arguments"
	done
}

# live_table WHEN: what is in force is $LINE.
live_table() {
	want "$1" "$LINE" "$(dmsetup table --showkeys "$NAME-live")"
}

# A mapping in use gets other flags by load, suspend and resume.
live_and_inactive_table() {
	local mode NUMBERS=$NUMBERS

	line 0 ""
	dmsetup create "$NAME-live" --table "$LINE" || broken "dmsetup create failed"
	defer dmsetup remove --retry "$NAME-live"
	for mode in "${MODES[@]}" default; do
		line 0 "${FLAGS[$mode]}"
		dmsetup load "$NAME-live" <<<"$LINE"
		want "inactive table, $mode" "$LINE" \
			"$(dmsetup table --inactive --showkeys "$NAME-live")"
		dmsetup suspend "$NAME-live" && dmsetup resume "$NAME-live"
		live_table "live table after resume, $mode"
		dmsetup suspend "$NAME-live"
		live_table "live table while suspended, $mode"
		dmsetup resume "$NAME-live"
	done
}

key_is_hidden_unless_asked_for() {
	local hidden

	line 0 "no_read_workqueue no_write_workqueue"
	dmsetup create "$NAME-key" --table "$LINE" || broken "dmsetup create failed"
	defer dmsetup remove --retry "$NAME-key"
	hidden=$(printf '%0*d' ${#KEY} 0)
	want "table with the key" "$LINE" "$(dmsetup table --showkeys "$NAME-key")"
	want "table without it" "${LINE/$KEY/$hidden}" "$(dmsetup table "$NAME-key")"
}

# A key that stays in the kernel's keyring is named in the table, not shown.
key_in_the_keyring() {
	local KEY=":32:logon:$PREFIX:key" id

	if ! command -v keyctl >/dev/null; then
		skip "needs the program keyctl"
		return
	fi
	id=$(printf '%032d' 7 | keyctl padd logon "$PREFIX:key" @u 2>/dev/null) || {
		skip "needs CONFIG_KEYS"
		return
	}
	defer keyctl unlink "$id" @u
	keyctl link @u @s 2>/dev/null # where the session does not see the user's keys
	same_table "no_read_workqueue no_write_workqueue" "no_read_workqueue no_write_workqueue"
}

needs flags
any_disk backing 64
NUMBERS=$(numbers_of "$DISK")
NAME=$PREFIX-table
KEY=$(key 64)
dmsetup create "$NAME" --notable || broken "dmsetup create failed"
defer dmsetup remove --retry "$NAME"

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("with_other_arguments $mode")
done
CLAIMS+=(any_order any_case given_twice_is_shown_once accepted_again with_integrity
	live_and_inactive_table key_is_hidden_unless_asked_for key_in_the_keyring)
run_claims
