#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="--persistent stores the flags in a LUKS2 header, and later opens use them"
#
# By the names that other versions use. --persistent without the flags removes them. Other volumes
# behave as with other options. An open that has to load dm-crypt, whose version is unknown before, does the same.
# Requires: root, dmsetup, null_blk, jq, xxd, the patched cryptsetup; for one case dm-crypt as a module
# that nobody uses.
# Risks: dm-crypt is unloaded for a moment.

. "$(dirname "$0")/volumes.sh"

# in_header FLAG...: in the JSON of both copies and in luksDump; nothing is shown for none.
in_header() {
	want "header" "valid valid" "$(validity "$DEVICE")"
	want "flags in the JSON" "$*" "$(stored "$DEVICE")"
	want "flags in luksDump" "${*:-(no flags)}" "$(dumped "$DEVICE" | sed 's/^$/(no flags)/')"
}

# reopened MODE [STATUS WORD]...: after a close and an open without options.
reopened() {
	close_volume
	silent open "${OPEN[@]}" "$VOLUME"
	active "${FLAGS[$1]}" "${@:2}"
}

# by_open TYPE MODE [unload]: with "unload" before each open.
by_open() {
	volume "$1"
	${3:-:}
	# The options are words.
	open_volume --persistent ${OPTIONS[$2]}
	want "messages" "" "$SAID"
	active "${FLAGS[$2]}"
	in_header ${STORED[$2]}
	close_volume
	${3:-:}
	reopened "$2"
}

# by_refresh TYPE FROM TO [discards]: modes, with "discards" an option that stays.
by_refresh() {
	local discards=${4:+--allow-discards}

	volume "$1"
	open_volume --persistent $discards ${OPTIONS[$2]}
	in_header ${discards#--} ${STORED[$2]}
	silent refresh --persistent $discards "$VOLUME" ${OPTIONS[$3]}
	active "${FLAGS[$3]}" $4
	in_header ${discards#--} ${STORED[$3]}
	reopened "$3" $4
}

# Only --persistent changes the header; an option adds to the flags stored there.
not_stored_unless_asked() {
	local before

	volume luks2
	open_volume --persistent "$NO_READ"
	before=$(header)
	silent refresh "$VOLUME" "$NO_WRITE"
	active "${FLAGS[both]}"
	close_volume
	silent open "${OPEN[@]}" "$VOLUME" "$NO_WRITE"
	active "${FLAGS[both]}"
	want "header" "$before" "$(header)"
	reopened no_read
}

all_flags_together() {
	volume luks2
	open_volume --persistent --allow-discards --perf-same_cpu_crypt --perf-submit_from_crypt_cpus \
		"$NO_READ" "$NO_WRITE"
	in_header allow-discards same-cpu-crypt submit-from-crypt-cpus no-read-workqueue no-write-workqueue
	reopened both discards same_cpu_crypt submit_from_crypt_cpus
}

# A detached header is written, and not the header on the data device.
detached_header() {
	local before data

	volume luks2
	data=$DEVICE
	before=$(header)
	null_disk size=8 irqmode=1
	dd if="$data" of="$DEVICE" bs=1M count=4 oflag=direct status=none || broken "cannot copy the header"
	open_volume --header "$DEVICE" --persistent "$NO_READ"
	want "header on the data device" "$before" "$(header "$data")"
	in_header no-read-workqueue
	close_volume
	silent open "${OPEN[@]}" "$VOLUME" --header "$DEVICE"
	active no_read_workqueue
}

# Flags of a later version do not disturb the known ones.
unknown_flags_are_ignored() {
	volume luks2
	store "$DEVICE" a-later-flag no-read-workqueue no-workqueue "" no-write-workqueue another
	open_volume
	want "messages" "" "$SAID"
	active "${FLAGS[both]}"
	close_volume
	store "$DEVICE" no-read-workqueues no-write-workqueue NO-READ-WORKQUEUE
	reopened no_write
	close_volume
	store "$DEVICE" a-later-flag
	reopened default
}

# elsewhere TYPE: --persistent does the same as with an older option.
elsewhere() {
	local status older

	volume "$1"
	cs open --persistent "${OPEN[@]}" "$VOLUME" --perf-same_cpu_crypt
	status=$?
	older="$status $SAID $(dmsetup table "$VOLUME" 2>&1 | cut -d ' ' -f 9-)"
	close_volume
	cs open --persistent "${OPEN[@]}" "$VOLUME" "$NO_READ"
	want "what open prints and does" "${older/same_cpu_crypt/no_read_workqueue}" \
		"$? $SAID $(dmsetup table "$VOLUME" 2>&1 | cut -d ' ' -f 9-)"
	diag "$older"
	close_volume
}

# The released program fails without a message.
plain_refreshed_by_key_file_and_name() {
	local key=$WORK/key

	volume plain
	head -c 64 /dev/urandom >"$key"
	OPEN=(-q --type plain --cipher aes-xts-plain64 --key-size 512 --key-file "$key" "$DEVICE")
	open_volume
	active ""
	silent refresh -q --key-file "$key" "$VOLUME" "$NO_READ" "$NO_WRITE"
	active "${FLAGS[both]}"
	silent refresh -q --key-file "$key" "$DEVICE" "$VOLUME" "$NO_WRITE"
	active no_write_workqueue
	silent refresh -q --key-file "$key" "$VOLUME"
	active ""
	head -c 64 /dev/urandom >"$key"
	cs refresh -q --key-file "$key" "$VOLUME" "$NO_READ"
	want "exit status with another key" 1 $?
	active ""
}

requires_cryptsetup flags jq xxd

for mode in no_read no_write both; do
	CASES+=("by_open luks2 $mode" "by_refresh luks2 default $mode")
done
CASES+=("by_open luks2-aead both" "by_open luks2 both unload" "by_refresh luks2-aead default both"
	"by_refresh luks2 no_read no_write discards" "by_refresh luks2 both no_read discards"
	"by_refresh luks2 both default" not_stored_unless_asked all_flags_together detached_header
	unknown_flags_are_ignored "elsewhere plain" "elsewhere luks1" "elsewhere tcrypt"
	plain_refreshed_by_key_file_and_name)
quick_cases "by_open luks2 no_read" "by_open luks2 both unload" "by_refresh luks2 default both" \
	"by_open luks2-aead both" "by_refresh luks2 both no_read discards" "by_refresh luks2 both default" \
	not_stored_unless_asked all_flags_together detached_header \
	unknown_flags_are_ignored "elsewhere luks1" plain_refreshed_by_key_file_and_name
run
