#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: dm-crypt takes all its optional arguments in any number, order and case and says them
# again in its table; what makes no sense it refuses.
# Needs: root, dmsetup, dm-zero; dm-integrity and null_blk for the arguments about tags.
# Endangers: nothing. No data are written but to devices of its own.

. "$(dirname "$0")/common.sh"

# In the order in which the kernel says them.
WORDS=(allow_discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue)
TAGS=(integrity:48:aead sector_size:4096 iv_large_sectors)
LENGTH=64 # of a line, in sectors
AT_ONCE=8  # lines: each reserves memory, a share of what all of dm-crypt may have
SLOT=$NAME-slot

# slot DEVICE CIPHER KEY: what lines are about, and a mapping to load them into.
slot() {
	ON="$2 $3 0 $(dmsetup info -c --noheadings --separator : -o major,minor "$1")"
	dmsetup create "$SLOT" --notable || broken "dmsetup refuses an empty mapping"
	defer dmsetup remove --retry "$SLOT"
}

# line [WORD]...: a table of one line.
line() { echo "0 $LENGTH crypt $ON 0${*:+ $# $*}"; }

# read_back TABLE: what the kernel says of it.
read_back() { dmsetup load "$SLOT" <<<"$1" && dmsetup table --inactive --showkeys "$SLOT"; }

# same_table "EXPECTED WORDS" "GIVEN WORDS"
same_table() { want "table after: $2" "$(line $1)" "$(read_back "$(line $2)")"; }

# every_combination_with MODE: its flags with each subset of the other words, a line each.
every_combination_with() {
	local all=("${WORDS[@]}" sector_size:4096 iv_large_sectors)
	local subset i lines=0 start taken flags table=""

	slot "$ZEROES" "$XTS" "$(key_of "$XTS")"
	for ((subset = 0; subset < 1 << ${#all[@]}; subset++)); do
		taken=() flags=""
		for ((i = 0; i < ${#all[@]}; i++)); do
			((subset >> i & 1)) || continue
			taken+=("${all[i]}")
			[[ ${all[i]} != no_*_workqueue ]] || flags+=" ${all[i]}"
		done
		[ "${flags# }" = "${FLAGS[$1]}" ] || continue
		start=$((lines++ % AT_ONCE * LENGTH))
		table+="$start $LENGTH crypt $ON $start${taken[*]:+ ${#taken[@]} ${taken[*]}}"$'\n'
		((lines % AT_ONCE == 0)) || continue
		want "table" "${table%$'\n'}" "$(read_back "$table")"
		table=""
	done
	want "combinations" $((1 << (${#all[@]} - 2))) "$lines"
}

any_order_and_case() {
	slot "$ZEROES" "$XTS" "$(key_of "$XTS")"
	same_table "${WORDS[*]}" "$(printf '%s\n' "${WORDS[@]}" | tac | xargs)"
	same_table "${WORDS[*]}" "${WORDS[*]^^}"
	same_table "no_write_workqueue" "no_write_workqueue No_Write_Workqueue"
}

# The flags of a mapping are switched by load and resume.
flags_are_switched() {
	local mode

	slot "$ZEROES" "$XTS" "$(key_of "$XTS")"
	for mode in "${MODES[@]}" default; do
		same_table "${FLAGS[$mode]}" "${FLAGS[$mode]}"
		dmsetup resume "$SLOT" || fail "cannot resume"
		want "live table" "$(line ${FLAGS[$mode]})" "$(dmsetup table --showkeys "$SLOT")"
	done
}

# With tags all of the words can be there at once.
all_words_at_once() {
	local words="${WORDS[*]} ${TAGS[*]}"

	null_disk
	tags_over "$DEVICE" 48
	slot "$DEVICE" "capi:authenc(hmac(sha256),xts(aes))-random" "$(key_of cbc)$(key_of xts)"
	same_table "$words" "$words"
}

# refused MESSAGE WORDS...: as they are, count included. Nothing must be left of it.
refused() {
	local message=$1 mark

	shift
	mark_log
	want "dmsetup create with: $*" failure "$(outcome dmsetup create "$NAME" \
		--table "0 8 crypt cipher_null-ecb - 0 $ZEROES 0 $*")"
	want "kernel message" "$message" "$(log_since "$mark" | grep -oF -m 1 "$message")"
	want "mapping left behind" failure "$(outcome dmsetup remove --retry "$NAME")"
}

unknown_words_are_refused() {
	refused "Invalid feature arguments" 1 no_read_workqueues
	refused "Invalid feature arguments" 2 no_read_workqueue no_writeworkqueue
	refused "Invalid feature arguments" 1 no_read_workqueue:1
}

wrong_counts_are_refused() {
	local all=("${WORDS[@]}" "${TAGS[@]}" no_read_workqueue)

	refused "Invalid number of feature args" ${#all[@]} "${all[@]}"
	refused "Invalid number of feature args" 2 no_read_workqueue
	refused "Invalid number of feature args" -1 no_read_workqueue
	refused "Invalid number of feature args" no_read_workqueue
	refused "Invalid number of feature args" 1
}

# knows WORD: newer kernels do.
knows() {
	mark_log
	takes cipher_null-ecb "$1" || ! log_since "$mark" | grep -q "Invalid feature arguments"
}

needs tac xargs
XTS=aes-xts-plain64
! knows high_priority || WORDS=("${WORDS[@]:0:2}" high_priority "${WORDS[@]:2}")
! knows integrity_key_size:32 || TAGS+=(integrity_key_size:32)

run_tests "every_combination_with default" "every_combination_with no_read" \
	"every_combination_with no_write" "every_combination_with both" any_order_and_case \
	flags_are_switched all_words_at_once unknown_words_are_refused wrong_counts_are_refused
