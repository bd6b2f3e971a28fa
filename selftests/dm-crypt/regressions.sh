#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: dm-crypt has none of the defects that its workqueue flags have had: one test a defect.
# Needs: root, dmsetup, null_blk; cryptd, dm-integrity and trace events for what is about them.
# CONFIG_DEBUG_ATOMIC_SLEEP finds what sleeps by chance only without it.
# Provokes: INTEGRITY AEAD ERROR
# Endangers: no other device. But a kernel with such a defect may crash or corrupt its memory.

. "$(dirname "$0")/common.sh"

TRACING=/sys/kernel/tracing

# random_data KIB: a temporary file, left in $DATA.
random_data() {
	DATA=$(mktemp) || broken "mktemp failed"
	defer rm "$DATA"
	head -c "$1k" /dev/urandom >"$DATA"
}

# reads BLOCK_SIZE SKIP COUNT and writes BLOCK_SIZE SEEK COUNT: of $MAPPED, and of $DATA.
reads() {
	dd if="$MAPPED" bs="$1" skip="$2" count="$3" iflag=direct,fullblock status=none
}

writes() {
	dd if="$DATA" of="$MAPPED" bs="$1" seek="$2" count="$3" oflag=direct status=none
}

# Data that one mode wrote, every mode reads. The size of a write is no power of two.
same_data() {
	local mode block=0

	random_data 48
	null_disk irqmode=1
	for mode in "${MODES[@]}"; do
		crypt data "$1" "$DEVICE" ${FLAGS[$mode]}
		want "writing in mode $mode" success "$(outcome writes 12k $block 4)"
		block=$((block + 4))
		undo_last
	done
	for mode in "${MODES[@]}"; do
		crypt data "$1" "$DEVICE" ${FLAGS[$mode]}
		want "what ${MODES[*]} wrote, read in mode $mode" same \
			"$(reads 24k 0 8 | cmp - <(cat "$DATA"{,,,}) && echo same)"
		undo_last
	done
}

# queued if=DEVICE|of=DEVICE: leaves in $QUEUED whether this gives work to kcryptd. The device
# completes in the submitter, so that no work of another mapping is seen.
queued() {
	local instance=$TRACING/instances/$NAME

	echo >"$instance/trace"
	# shellcheck disable=SC2016 # for the shell within
	sh -c 'echo "common_pid == $$" >"$0" && exec dd "$@" bs=4k count=16 status=none' \
		"$instance/events/workqueue/workqueue_queue_work/filter" "$@" || broken "$* fails"
	QUEUED=none
	! grep -q 'function=kcryptd_' "$instance/trace" || QUEUED=some
}

# Reads and writes are inline where the flags say so, and nowhere else.
inline_as_the_flags_say() {
	local mode inline

	mountpoint -q $TRACING || mount -t tracefs none $TRACING 2>/dev/null
	[ -d $TRACING/events/workqueue/workqueue_queue_work ] || skip "needs trace events"
	mkdir "$TRACING/instances/$NAME" || skip "needs trace instances"
	defer rmdir "$TRACING/instances/$NAME"
	echo 1 >"$TRACING/instances/$NAME/events/workqueue/workqueue_queue_work/enable" ||
		broken "cannot trace"
	for mode in "${MODES[@]}"; do
		crypt traced "$NULL" "$ZEROES" ${FLAGS[$mode]}
		queued if="$MAPPED" of=/dev/null iflag=direct
		case $mode in no_read | both) inline=none ;; *) inline=some ;; esac
		want "work for kcryptd by reads, mode $mode" $inline $QUEUED
		queued if=/dev/zero of="$MAPPED" oflag=direct
		case $mode in no_write | both) inline=none ;; *) inline=some ;; esac
		want "work for kcryptd by writes, mode $mode" $inline $QUEUED
		undo_last
	done
}

# parallel COMMAND...: eight of it at a time, with 0 to 7 as the last argument; how many failed.
parallel() {
	local job pids=() count=0

	for job in 0 1 2 3 4 5 6 7; do
		"$@" "$job" &
		pids+=($!)
	done
	for job in "${pids[@]}"; do
		wait "$job" || count=$((count + 1))
	done
	echo "$count"
}

# write_mib NUMBER, read_mib NUMBER
write_mib() {
	writes 1M "$1" 1
}

read_mib() {
	reads 1M "$1" 1 | cmp -s - "$DATA"
}

# A crypto queue that is full delays a request. A MiB alone is more than it takes.
full_crypto_queue_fails_nothing() {
	random_data 1024
	null_disk irqmode=2 completion_nsec=20000
	crypt queued "$ASYNC" "$DEVICE" ${FLAGS[$1]}
	want "writers that failed" 0 "$(parallel write_mib)"
	want "readers that failed" 0 "$(parallel read_mib)"
}

# A write that was encrypted asynchronously waits for a tag of the disk where it may sleep.
async_write_waits_for_a_tag() {
	random_data 1024
	null_disk irqmode=2 completion_nsec=200000 hw_queue_depth=2 submit_queues=1
	crypt slow "$ASYNC" "$DEVICE" no_write_workqueue
	want "writers that failed" 0 "$(parallel write_mib)"
}

# The IV generator of BitLocker volumes does not sleep where an inline read completes.
iv_generator_does_not_sleep() {
	random_data 1024
	null_disk "irqmode=$1" completion_nsec=10000
	crypt iv aes-cbc-eboiv "$DEVICE" ${FLAGS[both]}
	want "writers that failed" 0 "$(parallel write_mib)"
	want "readers that failed" 0 "$(parallel read_mib)"
}

# A sector with a wrong tag is refused, those beside it are read. It was written with another key.
wrong_tag_is_refused() {
	local cipher="capi:gcm(aes)-random" mode
	local tagged=(integrity:28:aead sector_size:4096)

	random_data 12
	null_disk irqmode=1
	tags_over "$DEVICE" 28
	crypt tagged "$cipher" "$DEVICE" "${tagged[@]}"
	writes 4k 0 3 || broken "cannot write"
	undo_last
	KEY=$(key_of cbc | rev) crypt forged "$cipher" "$DEVICE" "${tagged[@]}"
	writes 4k 1 1 || broken "cannot forge"
	undo_last
	for mode in "${MODES[@]}"; do
		crypt tagged "$cipher" "$DEVICE" ${FLAGS[$mode]} "${tagged[@]}"
		want "reading the first sector, mode $mode" success "$(outcome reads 4k 0 1)"
		want "reading the forged sector, mode $mode" failure "$(outcome reads 4k 1 1)"
		want "reading the third sector, mode $mode" success "$(outcome reads 4k 2 1)"
		want "reading all of them, mode $mode" failure "$(outcome reads 12k 0 1)"
		undo_last
	done
}

# An error of the disk reaches the caller, of a part of the request too.
error_reaches_the_caller() {
	local mode

	random_data 8
	device half $'0 8 zero\n8 8 error'
	for mode in "${MODES[@]}"; do
		crypt failing aes-xts-plain64 "$DEVICE" ${FLAGS[$mode]}
		want "reading the good sectors, mode $mode" success "$(outcome reads 4k 0 1)"
		want "writing the good sectors, mode $mode" success "$(outcome writes 4k 0 1)"
		want "reading all sectors, mode $mode" failure "$(outcome reads 8k 0 1)"
		want "writing all sectors, mode $mode" failure "$(outcome writes 8k 0 1)"
		undo_last
	done
}

needs dd cmp rev sha256sum mktemp
run_tests "same_data aes-xts-plain64" "same_data aes-cbc-essiv:sha256" "same_data aes-cbc-eboiv" \
	"same_data $NULL" "same_data $ASYNC" inline_as_the_flags_say \
	error_reaches_the_caller wrong_tag_is_refused \
	"iv_generator_does_not_sleep 1" "iv_generator_does_not_sleep 2" \
	"full_crypto_queue_fails_nothing no_read" "full_crypto_queue_fails_nothing no_write" \
	"full_crypto_queue_fails_nothing both" async_write_waits_for_a_tag
