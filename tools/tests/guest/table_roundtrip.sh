#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: a dm-crypt table read back is the table given, in its canonical form,
# for every combination of no_read_workqueue and no_write_workqueue with the
# other optional arguments, in any order and case.
# Needs: root, dmsetup, null_blk. Endangers: nothing but devices of its own.

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
	# shellcheck disable=SC2086
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
	want "table loaded from a read-back" "$first" "$(read_back "$first")"
}

# Where integrity: stands shows only with a device below that stores tags.
with_integrity() {
	local mode CIPHER="capi:gcm(aes)-random" KEY NUMBERS arguments

	KEY=$(key 32)
	integrity_disk "$DISK" 28 4096
	NUMBERS=$(numbers_of "$TAGGED")
	defer dmsetup clear "$NAME"
	for mode in "${MODES[@]}"; do
		arguments="same_cpu_crypt submit_from_crypt_cpus ${FLAGS[$mode]} integrity:28:aead sector_size:4096"
		same_table "$arguments" "$arguments"
	done
}

require_root
require_programs dmsetup
require_null_blk
require_flags
null_disk backing 64
NUMBERS=$(numbers_of "$DISK")
NAME=$PREFIX-table
KEY=$(key 64)
dmsetup create "$NAME" --notable || broken "dmsetup create failed"
defer dmsetup remove --retry "$NAME"

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("with_other_arguments $mode")
done
CLAIMS+=(any_order any_case given_twice_is_shown_once accepted_again with_integrity)
run_claims
