#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="no_read_workqueue and no_write_workqueue have none of their known defects"
#
# Requires: root, dmsetup, null_blk; for some cases cryptd, dm-integrity or trace events.
# Risks: a kernel with such a defect may crash or corrupt its memory.
# Provokes: INTEGRITY AEAD ERROR|I/O error, dev (dm-crypt-test-|nullb)

. "$(dirname "$0")/common.sh"

TRACING=/sys/kernel/tracing

# SHA-256 of the encrypted data, computed from the definitions of the modes, not by the kernel.
declare -A STORED=(
	[aes-xts-plain64]=635a9060f50c507a00a7636f5e60fda226d7c6c1d6fccb6ad0fbc87c089185c2
	[aes-cbc-essiv:sha256]=cb06122fa052a48ce364a52c03e784c07dac548c26048df8c18f5f19cc3e85ce
	[aes-cbc-eboiv]=9ed7d2cdc759edf487d09e1101cf6a0abcf33ddbdba77d6cbdc42c7a5d29cddf
	[aes-cbc-elephant]=dc86c882546fa92fd922b611b516ba68e2e878430860104bbefa5d9f9d2a400b
	[null]=ccadad6de33ef294ce0863c9077e99e5f67b731d356f4e36efbf7887b8e8c81c
	[async-null]=ccadad6de33ef294ce0863c9077e99e5f67b731d356f4e36efbf7887b8e8c81c
)

# data KIB: write the numbers from 1 to a temporary file. Sets $DATA.
data() {
	DATA=$(mktemp) || broken "mktemp failed"
	defer rm "$DATA"
	seq 1000000 | head -c "$1k" >"$DATA"
}

# reads BLOCK_SIZE SKIP COUNT: of $MAPPED. writes BLOCK_SIZE SEEK COUNT: of $DATA to $MAPPED.
reads() { dd if="$MAPPED" bs="$1" skip="$2" count="$3" iflag=direct,fullblock status=none; }
writes() { dd if="$DATA" of="$MAPPED" bs="$1" seek="$2" count="$3" oflag=direct status=none; }

# same_as FILE: compare it with the input.
same_as() { cmp -s - "$1" && echo same || echo different; }

# same_data CIPHER: each mode writes the same as the others, and reads what they wrote. The size of
# a write is no power of two.
same_data() {
	local mode block=0

	data 48
	null_disk
	for mode in "${MODES[@]}"; do
		crypt data "$1" ${FLAGS[$mode]}
		want "writing in mode $mode" success "$(outcome writes 12k $block 4)"
		block=$((block + 4))
		undo_last
	done
	want "SHA-256 of the disk" "${STORED[$1]}" \
		"$(dd if="$DEVICE" bs=48k count=4 iflag=direct status=none | sha256sum |
			cut -d ' ' -f 1)"
	for mode in "${MODES[@]}"; do
		crypt data "$1" ${FLAGS[$mode]}
		want "what ${MODES[*]} wrote, read in mode $mode" same \
			"$(reads 24k 0 8 | same_as <(cat "$DATA"{,,,}))"
		undo_last
	done
}

# by EVENT DEVICE COMMAND...: print the task or interrupt that caused most of these events of the
# device while the command ran.
by() {
	local instance=$TRACING/instances/$NAME number

	number=$(stat -Lc '0x%t << 20 | 0x%T' "$2")
	echo "dev == $((number))" >"$instance/events/block/$1/filter" || broken "cannot filter $1"
	echo >"$instance/trace"
	echo 1 >"$instance/events/block/$1/enable"
	"${@:3}" >/dev/null || ktap_print_msg "$3 fails"
	echo 0 >"$instance/events/block/$1/enable"
	awk '/: block_bio_/ {
		context = $1
		sub(/[-\/].*/, "", context)
		if (/\[[0-9]+\] +..[hHzZ]/)
			context = "hardirq"
		else if (/\[[0-9]+\] +..s/)
			context = "softirq"
		if (++count[context] > count[most])
			most = context
	}
	END { print most }' "$instance/trace"
}

# inline_as_the_flags_say CONTEXT: reads are completed, and writes submitted, inline with the flags
# and by workers without them, on a disk that completes in this context. Linux 6.8 sent reads to
# kcryptd that a hard interrupt completed (fixed by commit fb6ad4aec1d0).
inline_as_the_flags_say() {
	local mode context

	[ -d $TRACING/events ] || mount -t tracefs none $TRACING 2>/dev/null
	[ -d $TRACING/events/block/block_bio_complete ] || skip "needs trace events"
	mkdir "$TRACING/instances/$NAME" || skip "needs trace instances"
	defer rmdir "$TRACING/instances/$NAME"
	data 64
	DEVICE=$ZEROES
	[ "$1" = task ] || null_disk
	# A mapping completes in softirq.
	[ "$1" != softirq ] || { crypt below null ${FLAGS[both]} && DEVICE=$MAPPED; }
	for mode in "${MODES[@]}"; do
		crypt traced null ${FLAGS[$mode]}
		case $mode in no_read | both) context=softirq ;; *) context=kworker ;; esac
		[ "$1-$context" != task-softirq ] || context="dd"
		want "reads completed by, mode $mode" "$context" \
			"$(by block_bio_complete "$MAPPED" reads 4k 0 16)"
		case $mode in no_write | both) context="dd" ;; *) context=dmcrypt_write ;; esac
		want "writes submitted by, mode $mode" "$context" \
			"$(by block_bio_queue "$DEVICE" writes 4k 0 16)"
		undo_last
	done
}

# parallel_io CIPHER MODE ATTRIBUTE...: eight writers at once, then eight readers, a MiB each.
parallel_io() {
	local job

	data 1024
	null_disk "${@:3}"
	crypt parallel "$1" ${FLAGS[$2]}
	want "writers that failed" 0 "$(for job in {0..7}; do
		writes 1M "$job" 1 2>/dev/null || echo failed &
	done | grep -c failed)"
	want "readers that failed" 0 "$(for job in {0..7}; do
		reads 1M "$job" 1 2>/dev/null | cmp -s - "$DATA" || echo failed &
	done | grep -c failed)"
}

# full_crypto_queue_fails_nothing MODE: a full crypto queue delays requests. The first posting of
# the flags, in 2020, failed them. A MiB is more than the queue takes.
full_crypto_queue_fails_nothing() { parallel_io async-null "$1" completion_nsec=20000; }

# A write waits for a tag of the disk where it may sleep. Linux from 5.9 on submitted it in the
# completion of an asynchronous cipher, with bottom halves disabled.
async_write_waits_for_a_tag() {
	parallel_io async-null no_write completion_nsec=200000 hw_queue_depth=2
}

# iv_does_not_sleep GENERATOR: the IV generators of BitLocker volumes do not sleep in the completion
# of an inline read. Those of Linux from 5.9 on allocated memory with GFP_NOIO.
iv_does_not_sleep() {
	grep -qsw __might_sleep /proc/kallsyms ||
		ktap_print_msg "without CONFIG_DEBUG_ATOMIC_SLEEP this finds little"
	parallel_io "aes-cbc-$1" both
}

# A read of a sector with a wrong tag fails; reads of its neighbours do not. Linux from 5.9 on used
# wrong tags after an interruption (fixed by commit 8b8f80377657).
wrong_tag_is_refused() {
	local tagged=("capi:gcm(aes)-random" integrity:28:aead sector_size:4096) mode

	data 256
	null_disk
	tags_over 28
	for mode in "${MODES[@]}"; do
		crypt tagged "${tagged[0]}" ${FLAGS[$mode]} "${tagged[@]:1}"
		want "writing, mode $mode" success "$(outcome writes 256k 0 1)"
		want "reading, mode $mode" same "$(reads 256k 0 1 | same_as "$DATA")"
		undo_last
	done
	# Another key makes other tags.
	KEY=$(key_of cbc | rev) crypt forged "${tagged[0]}" "${tagged[@]:1}"
	writes 4k 1 1 || fail "cannot forge"
	undo_last
	for mode in "${MODES[@]}"; do
		crypt tagged "${tagged[0]}" ${FLAGS[$mode]} "${tagged[@]:1}"
		want "reading the forged sector, mode $mode" failure "$(outcome reads 4k 1 1)"
		want "reading all of them, mode $mode" failure "$(outcome reads 256k 0 1)"
		want "reading before it, mode $mode" same \
			"$(reads 4k 0 1 | same_as <(head -c 4k "$DATA"))"
		want "reading after it, mode $mode" same \
			"$(reads 4k 2 62 | same_as <(tail -c +8193 "$DATA"))"
		undo_last
	done
	want "message" "INTEGRITY AEAD ERROR" \
		"$(log_since "$start_mark" | grep -o -m 1 "INTEGRITY AEAD ERROR")"
}

# error_reaches_the_caller CIPHER: an error of the disk does, with each flag.
error_reaches_the_caller() {
	local mode

	data 8
	# Not in the first page, which the kernel reads by itself, whatever its size.
	null_disk badblocks=+264-271
	for mode in "${MODES[@]}"; do
		crypt failing "$1" ${FLAGS[$mode]}
		want "writing good sectors, mode $mode" success "$(outcome writes 4k 32 1)"
		want "reading good sectors, mode $mode" same \
			"$(reads 4k 32 1 | same_as <(head -c 4k "$DATA"))"
		want "writing all sectors, mode $mode" failure "$(outcome writes 8k 16 1)"
		want "reading all sectors, mode $mode" failure "$(outcome reads 8k 16 1)"
		undo_last
	done
}

needs dd cmp rev seq sha256sum stat mktemp
needs_flags
run_cases "same_data aes-xts-plain64" "same_data aes-cbc-essiv:sha256" "same_data aes-cbc-eboiv" \
	"same_data aes-cbc-elephant" "same_data null" "same_data async-null" \
	"inline_as_the_flags_say task" "inline_as_the_flags_say softirq" \
	"inline_as_the_flags_say hardirq" "error_reaches_the_caller null" \
	"error_reaches_the_caller async-null" wrong_tag_is_refused \
	"iv_does_not_sleep eboiv" "iv_does_not_sleep elephant" \
	"full_crypto_queue_fails_nothing no_read" "full_crypto_queue_fails_nothing no_write" \
	"full_crypto_queue_fails_nothing both" async_write_waits_for_a_tag
