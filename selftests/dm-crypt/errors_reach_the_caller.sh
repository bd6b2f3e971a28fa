#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: an error of the device below reaches the caller, once for each request,
# in every mode; requests beside it succeed; nothing is kept that was allocated.
# Needs: root, dmsetup, fio, null_blk, dm-flakey and dm-dust; kmemleak for its claim.
# Endangers: nothing but devices of its own.
# Kernel arguments: kmemleak=on

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

BAD=2 # the sector of 4k that cannot be read
MIB=32 # of requests that fail

# below NAME TARGET ARGUMENTS: a mapping of all of $DISK, which takes its place.
below() {
	local name=$PREFIX-$1

	shift
	dmsetup create "$name" --table "0 $(sectors_of "$DISK") $*" ||
		broken "dmsetup create failed: $*"
	defer dmsetup remove --retry "$name"
	DISK=/dev/mapper/$name
}

# failed_requests RW MIB: how many requests, 64 for each MiB, fio saw fail.
failed_requests() {
	fio --name=errors --filename="$MAPPED" --direct=1 --ioengine=libaio --rw="$1" --bs=16k \
		--iodepth=8 --size="$2M" --continue_on_error=all \
		--output-format=json 2>/dev/null |
		awk -F '[:,]' '/"total_err"/ { print $2 + 0 }'
}

# every_request_fails MODE CIPHER IRQMODE
every_request_fails() {
	null_disk failing 16 "irqmode=$3" completion_nsec=10000
	below failing-disk flakey "$DISK" 0 0 3600
	map_flags failing "$2" 64 "$1" || return 0
	want "reads that failed" 64 "$(failed_requests read 1)"
	want "writes that failed" 64 "$(failed_requests write 1)"
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
	want "reading the bad sector" "Input/output error" \
		"$(read_at $BAD 2>&1 >/dev/null | grep -o 'Input/output error')"
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

# nothing_is_kept CIPHER: half of what was allocated for failed writes would be seen.
nothing_is_kept() {
	local before kept limit=$((MIB * 512))

	null_disk leaking $MIB irqmode=2 completion_nsec=10000
	below failing-disk flakey "$DISK" 0 0 3600
	map_flags leaking "$1" 64 both || return 0
	failed_requests write $MIB >/dev/null
	before=$(kib_in_use)
	want "requests that failed" $((MIB * 64)) "$(failed_requests write $MIB)"
	kept=$(($(kib_in_use) - before))
	[ $kept -ge $limit ] || kept="below $limit"
	want "KiB kept" "below $limit" "$kept"
}

# Memory that nobody could give back.
kib_in_use() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemTotal:/ { s += $2 }
		/^(MemFree|Cached|Buffers|SReclaimable):/ { s -= $2 }
		END { print s }' /proc/meminfo
}

# kmemleak_finds_nothing CIPHER: what failed requests left unreferenced.
kmemleak_finds_nothing() {
	local leaks=$DEBUGFS/kmemleak

	mountpoint -q $DEBUGFS || mount -t debugfs none $DEBUGFS 2>/dev/null
	if ! { echo scan >$leaks; } 2>/dev/null; then
		skip "needs CONFIG_DEBUG_KMEMLEAK, and kmemleak=on"
		return
	fi
	echo clear >$leaks
	null_disk leaking 16 irqmode=2 completion_nsec=10000
	below failing-disk flakey "$DISK" 0 0 3600
	map_flags leaking "$1" 64 both || return 0
	failed_requests write 1 >/dev/null
	failed_requests read 1 >/dev/null
	undo_last 4
	# A block is reported once it was found unreferenced and some seconds old.
	echo scan >$leaks
	sleep 6
	echo scan >$leaks
	want "kmemleak" "" "$(grep -A 12 '^unreferenced' $leaks | grep -m 3 -E 'crypt')"
}

needs fio target:flakey target:dust null_blk flags async

CLAIMS=()
for mode in "${MODES[@]}"; do
	for irqmode in 0 1 2; do
		CLAIMS+=("every_request_fails $mode aes-xts-plain64 $irqmode"
			"one_bad_sector $mode aes-xts-plain64 $irqmode")
	done
	CLAIMS+=("every_request_fails $mode $ASYNC_XTS 2" "one_bad_sector $mode $ASYNC_XTS 2")
done
CLAIMS+=("nothing_is_kept aes-xts-plain64" "nothing_is_kept $ASYNC_XTS")
CLAIMS+=("kmemleak_finds_nothing $ASYNC_XTS")
quick_claims "every_request_fails default aes-xts-plain64 2" \
	"every_request_fails both aes-xts-plain64 1" \
	"every_request_fails both $ASYNC_XTS 2" \
	"one_bad_sector both aes-xts-plain64 2" \
	"nothing_is_kept aes-xts-plain64" \
	"kmemleak_finds_nothing $ASYNC_XTS"
run_claims
