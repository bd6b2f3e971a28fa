#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: optional arguments that make no sense are refused with EINVAL and a
# message in the kernel log, and nothing is created.
# Needs: root, dmsetup, null_blk or loop. Endangers: nothing but devices of its own.
# CPUs: 1

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

# refused MESSAGE OPTIONAL...: the words go into the table as they are.
refused() {
	local message=$1 output status

	shift
	mark_log
	output=$(dmsetup create "$NAME" --table "$TABLE $*" 2>&1)
	status=$?
	want "dmsetup create with: $*" failure "$(outcome [ $status -eq 0 ])"
	[ "$status" -ne 0 ] || dmsetup remove --retry "$NAME"
	want "errno" "$EINVAL" "$(grep -oF -m 1 "$EINVAL" <<<"$output")"
	want "kernel message" "$message" "$(log_since_mark | grep -oF "$message" | head -n 1)"
	want "mapping left behind" "" "$(dmsetup ls | grep -wF "$NAME")"
}

unknown_word() {
	refused "Invalid feature arguments" 1 no_read_workqueues
	refused "Invalid feature arguments" 1 no_workqueue
	refused "Invalid feature arguments" 2 no_read_workqueue no_writeworkqueue
}

too_many_arguments() {
	local words

	words=$(yes no_read_workqueue | head -n 40 | tr '\n' ' ')
	refused "Invalid number of feature args" 40 "$words"
}

# There are eight optional arguments, with integrity; a ninth cannot be meant. Newer kernels
# have further ones, and take as many more. Given twice counts as two.
EIGHT=(allow_discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue
	no_write_workqueue sector_size:4096 iv_large_sectors allow_discards)

# knows WORD
knows() {
	mark_log
	dmsetup create "$NAME" --notable || broken "dmsetup create failed"
	defer dmsetup remove --retry "$NAME"
	dmsetup load "$NAME" --table "$TABLE 1 $1" 2>/dev/null
	undo_last
	! log_since_mark | grep -q "Invalid feature arguments"
}

one_argument_too_many() {
	refused "Invalid number of feature args" $((MOST + 1)) \
		"${EIGHT[@]}" "${FURTHER[@]}" no_read_workqueue
}

# Then the count is right, and another mistake is what is refused.
as_many_as_there_are() {
	set -- "${FURTHER[@]}" "${EIGHT[@]}"
	refused "Invalid feature arguments" $MOST "${@:1:MOST-1}" nonsense
}

count_above_the_words() {
	refused "Invalid number of feature args" 2 no_read_workqueue
}

# The kernel has always dropped what lies beyond the count; it must not half apply.
words_beyond_the_count_have_no_effect() {
	map beyond "$TABLE 1 no_read_workqueue no_write_workqueue"
	want "arguments in force" "1 no_read_workqueue" \
		"$(dmsetup table "$PREFIX-beyond" | cut -d ' ' -f 9-)"
}

count_is_no_number() {
	refused "Invalid number of feature args" one no_read_workqueue
	refused "Invalid number of feature args" no_read_workqueue
	refused "Invalid number of feature args" -1 no_read_workqueue
}

count_without_words() {
	refused "Invalid number of feature args" 1
}

value_given_to_a_flag() {
	refused "Invalid feature arguments" 1 no_read_workqueue:1
	refused "Invalid feature arguments" 1 no_write_workqueue=0
}

needs flags python3
EINVAL=$(strerror EINVAL)
any_disk backing 64
NAME=$PREFIX-refused
TABLE="0 $(sectors_of "$DISK") crypt aes-xts-plain64 $(key 64) 0 $DISK 0"

FURTHER=()
for word in high_priority integrity_key_size:32; do
	! knows "$word" || FURTHER+=("$word")
done
MOST=$((8 + ${#FURTHER[@]}))

CLAIMS=(unknown_word too_many_arguments one_argument_too_many as_many_as_there_are
	count_above_the_words words_beyond_the_count_have_no_effect count_is_no_number
	count_without_words value_given_to_a_flag)
run_claims
