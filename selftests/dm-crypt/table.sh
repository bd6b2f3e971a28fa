#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="dm-crypt shows its optional arguments as they were given, and refuses wrong ones"
#
# Requires: root, dmsetup, dm-zero; for arguments about tags dm-integrity and null_blk.
# Risks: none.

. "$(dirname "$0")/common.sh"

# In the order in which the kernel shows them.
WORDS=(allow_discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue)
TAGS=(integrity:48:aead sector_size:4096 iv_large_sectors)
LENGTH=64 # of a line, in sectors
AT_ONCE=8  # lines: each reserves memory, a share of what all of dm-crypt may have
SLOT=$NAME-slot

# slot CIPHER KEY: create an empty mapping, to load tables of $DEVICE into.
slot() {
	ON="$1 $2 0 $(dmsetup info -c --noheadings --separator : -o major,minor "$DEVICE")"
	dmsetup create "$SLOT" --notable || broken "dmsetup refuses an empty mapping"
	defer dmsetup remove --retry "$SLOT"
}

# line [WORD]...: print a table of one line.
line() { echo "0 $LENGTH crypt $ON 0${*:+ $# $*}"; }

# read_back TABLE: load it, and print what the kernel shows of it.
read_back() { dmsetup load "$SLOT" <<<"$1" && dmsetup table --inactive --showkeys "$SLOT"; }

# same_table "EXPECTED WORDS" "GIVEN WORDS"
same_table() { want "table after: $2" "$(line $1)" "$(read_back "$(line $2)")"; }

# every_combination_with MODE: its flags with each subset of the other words.
every_combination_with() {
	local all=("${WORDS[@]}" sector_size:4096 iv_large_sectors)
	local subset i lines=0 start taken flags table=""

	slot "$XTS" "$(key_of "$XTS")"
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
	slot "$XTS" "$(key_of "$XTS")"
	same_table "${WORDS[*]}" "$(printf '%s\n' "${WORDS[@]}" | tac | xargs)"
	same_table "${WORDS[*]}" "${WORDS[*]^^}"
	same_table "no_write_workqueue" "no_write_workqueue No_Write_Workqueue"
}

# load and resume switch the flags of a mapping.
flags_are_switched() {
	local mode

	slot "$XTS" "$(key_of "$XTS")"
	for mode in "${MODES[@]}" default; do
		same_table "${FLAGS[$mode]}" "${FLAGS[$mode]}"
		dmsetup resume "$SLOT" || fail "cannot resume"
		want "live table" "$(line ${FLAGS[$mode]})" "$(dmsetup table --showkeys "$SLOT")"
	done
}

# Only a device with tags takes all words at once. Linux 6.12 to 7.3 knew ten and took nine.
all_words_at_once() {
	local words="${WORDS[*]} ${TAGS[*]}"

	null_disk
	tags_over 48
	slot "capi:authenc(hmac(sha256),xts(aes))-random" "$(key_of cbc)$(key_of xts)"
	same_table "$words" "$words"
}

# refused MESSAGE WORDS...: no mapping is created with these words, which include the count.
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

# The kernel ignores words beyond the count.
words_beyond_the_count_are_ignored() {
	slot "$XTS" "$(key_of "$XTS")"
	want "table" "$(line no_read_workqueue)" \
		"$(read_back "$(line no_read_workqueue) no_write_workqueue")"
}

# knows WORD: newer kernels know more words.
knows() {
	mark_log
	takes null "$1" || ! log_since "$mark" | grep -q "Invalid feature arguments"
}

needs tac xargs
needs_flags
XTS=aes-xts-plain64
! knows high_priority || WORDS=("${WORDS[@]:0:2}" high_priority "${WORDS[@]:2}")
! knows integrity_key_size:32 || TAGS+=(integrity_key_size:32)

run_cases "every_combination_with default" "every_combination_with no_read" \
	"every_combination_with no_write" "every_combination_with both" any_order_and_case \
	flags_are_switched all_words_at_once unknown_words_are_refused wrong_counts_are_refused \
	words_beyond_the_count_are_ignored
