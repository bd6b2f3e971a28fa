#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: dm-crypt has none of the defects named below, which its workqueue flags have had.
# Needs: root, dmsetup, null_blk; cryptd, dm-integrity and trace events for what is about them.
# Provokes: INTEGRITY AEAD ERROR|I/O error, dev (dm-crypt-test-|nullb)
# Endangers: no other device. But a kernel with such a defect may crash or corrupt its memory.

. "$(dirname "$0")/common.sh"

TRACING=/sys/kernel/tracing

# SHA-256 of what has to lie on the disk. Computed from the definitions of the modes, not by
# the kernel.
declare -A STORED=(
	[aes-xts-plain64]=635a9060f50c507a00a7636f5e60fda226d7c6c1d6fccb6ad0fbc87c089185c2
	[aes-cbc-essiv:sha256]=cb06122fa052a48ce364a52c03e784c07dac548c26048df8c18f5f19cc3e85ce
	[aes-cbc-eboiv]=9ed7d2cdc759edf487d09e1101cf6a0abcf33ddbdba77d6cbdc42c7a5d29cddf
	[aes-cbc-elephant]=dc86c882546fa92fd922b611b516ba68e2e878430860104bbefa5d9f9d2a400b
	[$NULL]=ccadad6de33ef294ce0863c9077e99e5f67b731d356f4e36efbf7887b8e8c81c
	[$ASYNC]=ccadad6de33ef294ce0863c9077e99e5f67b731d356f4e36efbf7887b8e8c81c
)

# data KIB: the numbers from 1, in a temporary file. It is left in $DATA.
data() {
	DATA=$(mktemp) || broken "mktemp failed"
	defer rm "$DATA"
	seq 1000000 | head -c "$1k" >"$DATA"
}

# reads BLOCK_SIZE SKIP COUNT and writes BLOCK_SIZE SEEK COUNT: of $MAPPED, and of $DATA.
reads() { dd if="$MAPPED" bs="$1" skip="$2" count="$3" iflag=direct,fullblock status=none; }
writes() { dd if="$DATA" of="$MAPPED" bs="$1" seek="$2" count="$3" oflag=direct status=none; }

# same_as FILE: whether the input is.
same_as() { cmp -s - "$1" && echo same || echo different; }

# Data that one mode wrote, every mode reads. The size of a write is no power of two.
same_data() {
	local mode block=0

	data 48
	[ "$1" = "$NULL" ] || needs_cipher "$1"
	null_disk
	for mode in "${MODES[@]}"; do
		crypt data "$1" "$DEVICE" ${FLAGS[$mode]}
		want "writing in mode $mode" success "$(outcome writes 12k $block 4)"
		block=$((block + 4))
		undo_last
	done
	want "SHA-256 of the disk" "${STORED[$1]}" \
		"$(dd if="$DEVICE" bs=48k count=4 iflag=direct status=none | sha256sum |
			cut -d ' ' -f 1)"
	for mode in "${MODES[@]}"; do
		crypt data "$1" "$DEVICE" ${FLAGS[$mode]}
		want "what ${MODES[*]} wrote, read in mode $mode" same \
			"$(reads 24k 0 8 | same_as <(cat "$DATA"{,,,}))"
		undo_last
	done
}

# by EVENT DEVICE COMMAND...: the task or interrupt that caused most such events of the device
# while the command ran.
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

# Most reads are completed and most writes submitted inline where the flags say so, and only there.
# inline_as_the_flags_say CONTEXT: where the disk completes; another mapping does in softirq.
inline_as_the_flags_say() {
	local mode context

	[ -d $TRACING/events ] || mount -t tracefs none $TRACING 2>/dev/null
	[ -d $TRACING/events/block/block_bio_complete ] || skip "needs trace events"
	mkdir "$TRACING/instances/$NAME" || skip "needs trace instances"
	defer rmdir "$TRACING/instances/$NAME"
	data 64
	DEVICE=$ZEROES
	[ "$1" = task ] || null_disk
	[ "$1" != softirq ] || { crypt below "$NULL" "$DEVICE" ${FLAGS[both]} && DEVICE=$MAPPED; }
	for mode in "${MODES[@]}"; do
		crypt traced "$NULL" "$DEVICE" ${FLAGS[$mode]}
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

# parallel_io CIPHER MODE ATTRIBUTE...: eight writers at a time, then eight readers, a MiB each.
parallel_io() {
	local job

	data 1024
	needs_cipher "$1"
	null_disk "${@:3}"
	crypt parallel "$1" "$DEVICE" ${FLAGS[$2]}
	want "writers that failed" 0 "$(for job in {0..7}; do
		writes 1M "$job" 1 2>/dev/null || echo failed &
	done | grep -c failed)"
	want "readers that failed" 0 "$(for job in {0..7}; do
		reads 1M "$job" 1 2>/dev/null | cmp -s - "$DATA" || echo failed &
	done | grep -c failed)"
}

# A crypto queue that is full delays a request. A MiB is more than it takes.
full_crypto_queue_fails_nothing() { parallel_io "$ASYNC" "$1" completion_nsec=20000; }

# A write that was encrypted asynchronously waits for a tag of the disk where it may sleep.
async_write_waits_for_a_tag() {
	parallel_io "$ASYNC" no_write completion_nsec=200000 hw_queue_depth=2 submit_queues=1
}

# iv_does_not_sleep GENERATOR: those of BitLocker volumes, where an inline read completes.
iv_does_not_sleep() {
	grep -qsw __might_sleep /proc/kallsyms ||
		ktap_print_msg "without CONFIG_DEBUG_ATOMIC_SLEEP this sees little"
	parallel_io "aes-cbc-$1" both
}

# A sector with a wrong tag is refused, those beside it are read. It was written with another key.
wrong_tag_is_refused() {
	local tagged=("capi:gcm(aes)-random" integrity:28:aead sector_size:4096) mode

	data 256
	null_disk
	tags_over "$DEVICE" 28
	needs_cipher "${tagged[@]}"
	for mode in "${MODES[@]}"; do
		crypt tagged "${tagged[0]}" "$DEVICE" ${FLAGS[$mode]} "${tagged[@]:1}"
		want "writing, mode $mode" success "$(outcome writes 256k 0 1)"
		want "reading, mode $mode" same "$(reads 256k 0 1 | same_as "$DATA")"
		undo_last
	done
	KEY=$(key_of cbc | rev) crypt forged "${tagged[0]}" "$DEVICE" "${tagged[@]:1}"
	writes 4k 1 1 || fail "cannot forge"
	undo_last
	for mode in "${MODES[@]}"; do
		crypt tagged "${tagged[0]}" "$DEVICE" ${FLAGS[$mode]} "${tagged[@]:1}"
		want "reading the forged sector, mode $mode" failure "$(outcome reads 4k 1 1)"
		want "reading all of them, mode $mode" failure "$(outcome reads 256k 0 1)"
		want "reading before it, mode $mode" same \
			"$(reads 4k 0 1 | same_as <(head -c 4k "$DATA"))"
		want "reading after it, mode $mode" same \
			"$(reads 4k 2 62 | same_as <(tail -c +8193 "$DATA"))"
		undo_last
	done
	want "message" "INTEGRITY AEAD ERROR" \
		"$(log_since "$begun" | grep -o -m 1 "INTEGRITY AEAD ERROR")"
}

# An error of the disk reaches the caller.
error_reaches_the_caller() {
	local mode

	data 8
	null_disk badblocks=+8-15
	for mode in "${MODES[@]}"; do
		crypt failing "$NULL" "$DEVICE" ${FLAGS[$mode]}
		want "writing good sectors, mode $mode" success "$(outcome writes 4k 0 1)"
		want "reading good sectors, mode $mode" same \
			"$(reads 4k 0 1 | same_as <(head -c 4k "$DATA"))"
		want "writing all sectors, mode $mode" failure "$(outcome writes 8k 0 1)"
		want "reading all sectors, mode $mode" failure "$(outcome reads 8k 0 1)"
		undo_last
	done
}

needs dd cmp rev seq sha256sum stat mktemp
run_tests "same_data aes-xts-plain64" "same_data aes-cbc-essiv:sha256" "same_data aes-cbc-eboiv" \
	"same_data aes-cbc-elephant" "same_data $NULL" "same_data $ASYNC" \
	"inline_as_the_flags_say task" "inline_as_the_flags_say softirq" \
	"inline_as_the_flags_say hardirq" error_reaches_the_caller wrong_tag_is_refused \
	"iv_does_not_sleep eboiv" "iv_does_not_sleep elephant" \
	"full_crypto_queue_fails_nothing no_read" "full_crypto_queue_fails_nothing no_write" \
	"full_crypto_queue_fails_nothing both" async_write_waits_for_a_tag
