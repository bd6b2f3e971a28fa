#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: an error of the device below reaches the caller, once for each request,
# in every mode; requests beside it succeed.
# Needs: root, dmsetup, fio, null_blk, dm-flakey and dm-dust.
# Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"
. "$here/failing.sh"

BAD=2 # the sector of 4k that cannot be read

# every_request_fails MODE CIPHER IRQMODE
every_request_fails() {
	null_disk failing 16 "irqmode=$3" completion_nsec=10000
	below failing-disk flakey "$DISK" 0 0 3600
	map_flags failing "$2" 64 "$1" || return 0
	want "reads that failed" 32 "$(failed_requests read 2)"
	want "writes that failed" 32 "$(failed_requests write 2)"
	want "requests in flight" "0 0" \
		"$(xargs <"/sys/dev/block/$(numbers_of "$MAPPED")/inflight")"
}

# one_bad_sector MODE CIPHER IRQMODE: the others are read, and a write mends it.
one_bad_sector() {
	local data beyond=$(((BAD + 1) * 4096))

	null_disk dusty 16 "irqmode=$3" completion_nsec=10000
	below dusty-disk dust "$DISK" 0 4096
	map_flags dusty "$2" 64 "$1" || return 0
	data=$(mktemp) || broken "mktemp failed"
	defer rm "$data"
	head -c 32k /dev/urandom >"$data"
	dd if="$data" of="$MAPPED" bs=4k oflag=direct status=none || broken "cannot write"
	dmsetup message "$PREFIX-dusty-disk" 0 addbadblock $BAD &&
		dmsetup message "$PREFIX-dusty-disk" 0 enable || broken "dm-dust takes no bad block"
	want "reading the bad sector" "$(strerror EIO)" \
		"$(read_at $BAD 2>&1 >/dev/null | grep -oF "$(strerror EIO)")"
	want "reading before it" "" \
		"$(read_at 0 $BAD | cmp - <(head -c $((BAD * 4096)) "$data") 2>&1)"
	want "reading after it" "" \
		"$(read_at $((BAD + 1)) | cmp - <(tail -c +$((beyond + 1)) "$data") 2>&1)"
	dd if="$data" of="$MAPPED" bs=4k oflag=direct status=none
	want "writing it" 0 $?
	want "reading what was written" "" "$(read_at 0 | cmp - "$data" 2>&1)"
}

# read_at BLOCK [COUNT]: direct reads of 4k up to the end of the data.
read_at() {
	dd if="$MAPPED" bs=4k skip="$1" count="${2:-$((8 - $1))}" iflag=direct status=none
}

needs fio python3 target:flakey target:dust null_blk modes async

CLAIMS=()
for mode in "${MODES[@]}"; do
	CLAIMS+=("every_request_fails $mode aes-xts-plain64 2"
		"one_bad_sector $mode aes-xts-plain64 2"
		"every_request_fails $mode async-xts 2"
		"one_bad_sector $mode async-xts 2")
done
for irqmode in 0 1; do
	CLAIMS+=("every_request_fails both aes-xts-plain64 $irqmode"
		"one_bad_sector both aes-xts-plain64 $irqmode")
done
quick_claims "every_request_fails default aes-xts-plain64 2" \
	"every_request_fails both aes-xts-plain64 1" \
	"every_request_fails both async-xts 2" \
	"one_bad_sector both aes-xts-plain64 2"
run_claims
