#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: what rebuilds a table from the active one keeps the flags: suspend and
# resume, resize, online reencryption at every stage. A refresh sets those that it
# is given, beside other options, and a reopened volume has only stored ones.
# Needs: root, dmsetup, null_blk, jq, xxd, the patched cryptsetup. Endangers:
# nothing but devices of its own.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/volumes.sh"
. "$here/header.sh"

# with_flags TYPE MODE: an open volume.
with_flags() {
	volume "$1" || return
	# The options are words.
	open_volume ${OPTIONS[$2]}
	in_force "${FLAGS[$2]}"
}

# refreshed TYPE OPTION...
refreshed() {
	local type=$1

	shift
	case $type in
	plain) silent refresh -q --hash sha256 "$NAME" "$@" ;;
	*) silent refresh "$NAME" "$@" ;;
	esac
}

suspend_and_resume() {
	local mode=$2

	with_flags "$1" "$mode" || return
	silent luksSuspend "$NAME"
	want "state" SUSPENDED "$(dmsetup info -c --noheadings -o suspended "$NAME" | tr '[:lower:]' '[:upper:]')"
	silent luksResume "$NAME"
	in_force "${FLAGS[$mode]}"
	content >/dev/null
}

resize() {
	with_flags "$1" both || return
	silent resize "$NAME" --size 8192
	want "sectors after shrinking" 8192 "$(blockdev --getsz "/dev/mapper/$NAME")"
	in_force "${FLAGS[both]}"
	silent resize "$NAME"
	want "sectors after growing" "$(($(sectors_of "$DISK") - $(offset)))" "$(blockdev --getsz "/dev/mapper/$NAME")"
	in_force "${FLAGS[both]}"
}

offset() {
	dmsetup table "$NAME" | cut -d ' ' -f 8
}

# A refresh brings what it is given and nothing else, as its manual says.
refresh_sets_what_is_given() {
	local type=$1 others=(--perf-same_cpu_crypt --perf-submit_from_crypt_cpus)

	with_flags "$type" no_read || return
	refreshed "$type" "$NO_WRITE"
	in_force no_write_workqueue
	refreshed "$type" "${others[@]}" "$NO_READ" "$NO_WRITE"
	in_force "${FLAGS[both]}" same_cpu_crypt submit_from_crypt_cpus
	refreshed "$type" --perf-same_cpu_crypt "$NO_READ"
	in_force no_read_workqueue same_cpu_crypt
	refreshed "$type"
	in_force ""
	# Storage for tags takes no discards while it has a journal.
	[ -z "$TAGS" ] || return 0
	refreshed "$type" --allow-discards "$NO_READ"
	in_force no_read_workqueue discards
}

# The same while somebody reads and writes through the mapping.
refresh_under_io() {
	local i pid

	with_flags luks2 default || return
	fio --name=refresh --filename="/dev/mapper/$NAME" --rw=randrw --bs=4k --iodepth=8 --direct=1 \
		--ioengine=libaio --size=4m --time_based --runtime=600 --verify=crc32c --verify_fatal=1 \
		--minimal >"$WORK/fio" 2>&1 &
	pid=$!
	defer kill "$pid"
	for ((i = 0; i < 5; i++)); do
		refreshed luks2 "$NO_READ" "$NO_WRITE"
		in_force "${FLAGS[both]}"
		refreshed luks2
		in_force ""
	done
	kill -0 "$pid" 2>/dev/null
	want "fio still running (0)" 0 $? || diag "$(cat "$WORK/fio")"
}

close_and_reopen() {
	with_flags "$1" both || return
	close_volume
	silent open "${OPEN[@]}" "$NAME"
	in_force ""
	case $1 in luks2*) ;; *) return ;; esac
	silent refresh --persistent "$NAME" "$NO_READ" "$NO_WRITE"
	close_volume
	silent open "${OPEN[@]}" "$NAME"
	in_force "${FLAGS[both]}"
}

# reencrypt OPTION...: of the open volume, with tiny steps.
reencrypt() {
	cs reencrypt -q "${FAST_KDF[@]}" --resilience none --hotzone-size 64K --active-name "$NAME" "$@"
}

# Begun, under way (stopped by an interrupt in the middle), completed: the key has
# changed in the end, the data have not.
online_reencryption() {
	local mode=$1 before pid key

	volume luks2
	# Else it may be complete before it is interrupted.
	slow_disk 4
	# The options are words.
	open_volume ${OPTIONS[$mode]}
	dd if=/dev/urandom of="/dev/mapper/$NAME" bs=1M oflag=direct status=none 2>/dev/null
	before=$(content)
	key=$(json "$DISK" 0 | jq -c .digests)
	reencrypt --init-only
	want "exit status of --init-only" 0 $? || diag "$SAID"
	in_force "${FLAGS[$mode]}"
	want "content after --init-only" "$before" "$(content)"

	printf '%s\n' "$SECRET" >"$WORK/secret"
	: >"$WORK/log" # what an earlier claim left there must not be taken for progress
	"$CRYPTSETUP" reencrypt --resume-only --resilience none --hotzone-size 64K \
		--active-name "$NAME" <"$WORK/secret" >"$WORK/log" 2>&1 &
	pid=$!
	until grep -q Progress "$WORK/log" || ! kill -0 "$pid" 2>/dev/null; do :; done
	kill -INT "$pid" 2>/dev/null
	wait "$pid"
	want "segments while it is under way" 2 "$(dmsetup table "$NAME" | grep -c ' crypt ')" ||
		diag "$(dmsetup table "$NAME"; tr '\r' '\n' <"$WORK/log" | tail -n 2)"
	in_force "${FLAGS[$mode]}"
	want "content while it is under way" "$before" "$(content)"

	reencrypt --resume-only
	want "exit status of --resume-only" 0 $? || diag "$SAID"
	in_force "${FLAGS[$mode]}"
	want "content after --resume-only" "$before" "$(content)"
	want "key" changed "$([ "$key" = "$(json "$DISK" 0 | jq -c .digests)" ] && echo same || echo changed)"
	close_volume
	silent open "${OPEN[@]}" "$NAME"
	want "content after reopening" "$before" "$(content)"
}

# Encryption starts from a linear table, which has no options: nothing is to be said of a
# kernel that lacks them, and a refresh brings them in the end.
encryption_that_has_begun() {
	local header=(--header "$WORK/detached") before

	volume plain
	before=$(head -c 4M "$DISK" | sha256sum)
	works reencrypt -q "${FAST_KDF[@]}" --encrypt --init-only "${header[@]}" "$DISK" || return
	silent open "${header[@]}" "$DISK" "$NAME" "$NO_READ" "$NO_WRITE" || return
	defer close_volume
	want "flags in the status" "" "$(status_line "$NAME")"
	works reencrypt -q --resume-only "${header[@]}" --active-name "$NAME"
	silent refresh "${header[@]}" "$NAME" "$NO_READ" "$NO_WRITE"
	in_force "${FLAGS[both]}"
	want "content" "$before" "$(content)"
}

require_cryptsetup flags target:delay jq xxd fio

CLAIMS=()
for mode in no_read no_write both; do
	CLAIMS+=("suspend_and_resume luks1 $mode" "suspend_and_resume luks2 $mode" "online_reencryption $mode")
done
for type in plain luks1 luks2; do
	CLAIMS+=("resize $type" "refresh_sets_what_is_given $type")
done
for type in luks1 luks2 luks2-aead; do
	CLAIMS+=("close_and_reopen $type")
done
CLAIMS+=("refresh_sets_what_is_given luks2-aead" refresh_under_io encryption_that_has_begun)
quick_claims "suspend_and_resume luks2 both" "online_reencryption both" "resize luks1" \
	"refresh_sets_what_is_given plain" "refresh_sets_what_is_given luks2-aead" \
	"close_and_reopen luks2" refresh_under_io encryption_that_has_begun
run_claims
