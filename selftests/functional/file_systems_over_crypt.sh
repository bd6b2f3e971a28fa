#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: file systems over inline mappings keep what is written to them: ext4
# under parallel load, btrfs with a scrub beside it.
# Needs: root, dmsetup, fio, null_blk; mkfs.ext4 and e2fsck, mkfs.btrfs and btrfs
# for the claims about them. Endangers: nothing but devices of its own - on
# kernels that decrypt inline carelessly a scrub is known to crash: use a guest.
# CPUs: 2

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

MIB=$(full_or_quick 16 8) # of checked data

# has PROGRAM...: or the claim is a skip.
has() {
	local program

	for program in "$@"; do
		command -v "$program" >/dev/null || {
			skip "needs the program $program"
			return 1
		}
	done
}

# mounted FSTYPE: a new mount point, which is left in $MOUNTED.
mounted() {
	MOUNTED=$(mktemp -d) || broken "mktemp failed"
	defer rmdir "$MOUNTED"
	modprobe -q "$1"
	if ! grep -qw "$1" /proc/filesystems; then
		skip "needs the file system $1"
		return 1
	fi
	want "mount of $1" success "$(outcome mount -t "$1" "$MAPPED" "$MOUNTED")" || return
	defer umount "$MOUNTED"
}

# files_stay NAME: jobs that write files with checksums, sync, rename and remove
# beside each other, and read all back. The status says whether all was well.
files_stay() {
	local files=$MOUNTED/a:$MOUNTED/b:$MOUNTED/c:$MOUNTED/d copy load status=0

	verified_io "$1" "$files" --rw=randwrite --bsrange=4k-64k \
		--iodepth=8 --size=${MIB}M --fsync=16 --end_fsync=1 &
	load=$!
	for copy in 1 2 3 4; do
		cp -r "$here" "$MOUNTED/copy" && sync "$MOUNTED/copy" &&
			mv "$MOUNTED/copy" "$MOUNTED/copy-$copy"
	done
	echo 3 >/proc/sys/vm/drop_caches
	for copy in 1 2 3 4; do
		want "difference after copying" "" \
			"$(diff -r "$here" "$MOUNTED/copy-$copy" 2>&1 | head -n 2)" || status=1
		rm -r "$MOUNTED/copy-$copy"
	done
	wait $load || status=1
	return $status
}

# ext4_stays_whole MODE CIPHER IRQMODE
ext4_stays_whole() {
	has mkfs.ext4 e2fsck diff || return 0
	null_disk ext4 128 "irqmode=$3" completion_nsec=10000
	map_flags ext4 "$2" 64 "$1" || return 0
	want "mkfs.ext4" success "$(outcome mkfs.ext4 -q "$MAPPED")"
	mounted ext4 || return 0
	files_stay ext4
	want "status of the load" 0 $?
	undo_last
	want "e2fsck" success "$(outcome e2fsck -fn "$MAPPED")"
	no_complaints
}

scrub() {
	btrfs scrub start -B "$MOUNTED" 2>&1
}

# btrfs_scrub_finds_nothing MODE CIPHER IRQMODE
btrfs_scrub_finds_nothing() {
	local clean="no errors found"

	has btrfs diff mkfs.btrfs || return 0
	null_disk scrubbed 256 "irqmode=$3" completion_nsec=10000
	map_flags scrubbed "$2" 64 "$1" || return 0
	want "mkfs.btrfs" success "$(outcome mkfs.btrfs -q -f "$MAPPED")"
	mounted btrfs || return 0
	files_stay scrubbed &
	want "scrub beside the load" "$clean" "$(scrub | grep -o "$clean")"
	wait $!
	want "status of the load" 0 $?
	want "scrub after it" "$clean" "$(scrub | grep -o "$clean")"
	no_complaints
}

needs fio null_blk modes async

CLAIMS=()
for irqmode in 1 2; do
	CLAIMS+=("ext4_stays_whole both aes-xts-plain64 $irqmode"
		"btrfs_scrub_finds_nothing both aes-xts-plain64 $irqmode")
done
CLAIMS+=("ext4_stays_whole both async-xts 2" "btrfs_scrub_finds_nothing both async-xts 2")
quick_claims "ext4_stays_whole both aes-xts-plain64 1" \
	"btrfs_scrub_finds_nothing both aes-xts-plain64 2"
run_claims
