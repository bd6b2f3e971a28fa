#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: --persistent stores the flags in a LUKS2 header, by the names that other
# versions use, every later open uses them, and --persistent without them removes
# them. Where there is no such header it does what it does for other options.
# Needs: root, dmsetup, null_blk, jq, xxd, the patched cryptsetup. Endangers:
# nothing but devices of its own.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/volumes.sh"
. "$here/header.sh"

# in_header FLAG...: in the JSON of both copies and in luksDump; nothing is shown for none.
in_header() {
	want "header" "valid valid" "$(validity "$DISK")"
	want "flags in the JSON" "$*" "$(stored "$DISK")"
	want "flags in luksDump" "${*:-(no flags)}" "$(dumped "$DISK" | sed 's/^$/(no flags)/')"
}

# reopened MODE: after a close and an open without options.
reopened() {
	close_volume
	silent open "${OPEN[@]}" "$NAME"
	in_force "${FLAGS[$1]}"
}

by_open() {
	volume "$1" || return 0
	# The options are words.
	open_volume --persistent ${OPTIONS[$2]}
	want "messages" "" "$SAID"
	in_force "${FLAGS[$2]}"
	in_header ${STORED[$2]}
	reopened "$2"
}

by_refresh() {
	volume "$1" || return 0
	open_volume || return
	in_header
	silent refresh --persistent "$NAME" ${OPTIONS[$2]}
	in_force "${FLAGS[$2]}"
	in_header ${STORED[$2]}
	reopened "$2"
}

# replaced_by_refresh FROM TO: modes, with another option that stays.
replaced_by_refresh() {
	volume luks2 || return 0
	open_volume --persistent --allow-discards ${OPTIONS[$1]}
	in_header allow-discards ${STORED[$1]}
	silent refresh --persistent --allow-discards "$NAME" ${OPTIONS[$2]}
	in_force "${FLAGS[$2]}" discards
	in_header allow-discards ${STORED[$2]}
	close_volume
	silent open "${OPEN[@]}" "$NAME"
	in_force "${FLAGS[$2]}" discards
}

removed_by_refresh_without_any() {
	volume luks2 || return 0
	open_volume --persistent "$NO_READ" "$NO_WRITE"
	silent refresh --persistent "$NAME"
	in_force ""
	in_header
	reopened default
}

# Only --persistent changes the header; an option adds to the flags stored there.
not_stored_unless_asked() {
	local before

	volume luks2 || return 0
	open_volume --persistent "$NO_READ"
	before=$(header)
	silent refresh "$NAME" "$NO_WRITE"
	in_force "${FLAGS[both]}"
	close_volume
	silent open "${OPEN[@]}" "$NAME" "$NO_WRITE"
	in_force "${FLAGS[both]}"
	want "header" "$before" "$(header)"
	reopened no_read
}

all_flags_together() {
	volume luks2 || return 0
	open_volume --persistent --allow-discards --perf-same_cpu_crypt --perf-submit_from_crypt_cpus \
		"$NO_READ" "$NO_WRITE"
	in_header allow-discards same-cpu-crypt submit-from-crypt-cpus no-read-workqueue no-write-workqueue
	close_volume
	silent open "${OPEN[@]}" "$NAME"
	in_force "${FLAGS[both]}" discards same_cpu_crypt submit_from_crypt_cpus
}

# A header apart from the data is the one that is written.
detached_header() {
	local before data

	volume luks2 || return 0
	data=$DISK
	before=$(header)
	null_disk header 8
	dd if="$data" of="$DISK" bs=1M count=4 oflag=direct status=none || broken "cannot copy the header"
	open_volume --header "$DISK" --persistent "$NO_READ"
	want "header on the data device" "$before" "$(header "$data")"
	in_header no-read-workqueue
	close_volume
	silent open "${OPEN[@]}" "$NAME" --header "$DISK"
	in_force no_read_workqueue
}

# Flags of a later version, between and around the known ones: known ones work.
unknown_flags_are_ignored() {
	volume luks2 || return 0
	store "$DISK" a-later-flag no-read-workqueue no-workqueue "" no-write-workqueue another
	open_volume
	want "messages" "" "$SAID"
	in_force "${FLAGS[both]}"
	close_volume
	store "$DISK" no-read-workqueues no-write-workqueue NO-READ-WORKQUEUE
	silent open "${OPEN[@]}" "$NAME"
	in_force no_write_workqueue
	close_volume
	store "$DISK" a-later-flag
	silent open "${OPEN[@]}" "$NAME"
	in_force ""
}

# elsewhere TYPE: --persistent says and does the same as with an older option.
elsewhere() {
	local status older

	volume "$1" || return 0
	cs open --persistent "${OPEN[@]}" "$NAME" --perf-same_cpu_crypt
	status=$?
	older="$status $SAID $(dmsetup table "$NAME" 2>&1 | cut -d ' ' -f 9-)"
	close_volume
	cs open --persistent "${OPEN[@]}" "$NAME" "$NO_READ"
	want "what open says and does" "${older/same_cpu_crypt/no_read_workqueue}" \
		"$? $SAID $(dmsetup table "$NAME" 2>&1 | cut -d ' ' -f 9-)"
	diag "$older"
	close_volume
}

# It used to fail, without a word.
plain_refreshed_by_key_file_and_name() {
	local key=$WORK/key

	volume plain || return 0
	head -c 64 /dev/urandom >"$key"
	OPEN=(-q --type plain --cipher aes-xts-plain64 --key-size 512 --key-file "$key" "$DISK")
	open_volume
	in_force ""
	silent refresh -q --key-file "$key" "$NAME" "$NO_READ" "$NO_WRITE"
	in_force "${FLAGS[both]}"
	silent refresh -q --key-file "$key" "$DISK" "$NAME" "$NO_WRITE"
	in_force no_write_workqueue
	silent refresh -q --key-file "$key" "$NAME"
	in_force ""
	head -c 64 /dev/urandom >"$key"
	cs refresh -q --key-file "$key" "$NAME" "$NO_READ"
	want "exit status with another key" 1 $?
	in_force ""
}

require_cryptsetup flags jq xxd

CLAIMS=()
for mode in no_read no_write both; do
	CLAIMS+=("by_open luks2 $mode" "by_refresh luks2 $mode")
done
CLAIMS+=("by_open luks2-aead both" "by_refresh luks2-aead both"
	"replaced_by_refresh no_read no_write" "replaced_by_refresh both no_read"
	"replaced_by_refresh both default" "replaced_by_refresh default both"
	removed_by_refresh_without_any not_stored_unless_asked all_flags_together detached_header
	unknown_flags_are_ignored "elsewhere plain" "elsewhere luks1" "elsewhere tcrypt"
	plain_refreshed_by_key_file_and_name)
quick_claims "by_open luks2 no_read" "by_refresh luks2 both" "by_open luks2-aead both" "replaced_by_refresh both no_read" \
	removed_by_refresh_without_any not_stored_unless_asked all_flags_together detached_header \
	unknown_flags_are_ignored "elsewhere luks1" plain_refreshed_by_key_file_and_name
run_claims
