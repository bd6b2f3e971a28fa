#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="file systems on inline mappings keep their data: ext4 under load, btrfs during a scrub"
#
# Requires: root, dmsetup, fio, null_blk; mkfs.ext4 and e2fsck, mkfs.btrfs and btrfs for their cases.
# Risks: a scrub crashed on Linux 5.9, which decrypted where it must not sleep: use a guest.
# CPUs: 2

. "$(dirname "$0")/common.sh"

MIB=$(full_or_quick 16 8) # of checked data
HERE=$(dirname "$0")

# mounted FSTYPE PROGRAM...: make this file system on the mapping and mount it. Sets $MOUNTED.
mounted() {
	local program

	for program in diff "${@:2}"; do
		command -v "${program%% *}" >/dev/null || skip "needs the program $program"
	done
	modprobe -q "$1"
	grep -qw "$1" /proc/filesystems || skip "needs the file system $1"
	$2 -q "$MAPPED" || fail "$2 fails"
	MOUNTED=$(mktemp -d) || broken "mktemp failed"
	defer rmdir "$MOUNTED"
	mount -t "$1" "$MAPPED" "$MOUNTED" || fail "mount fails"
	defer umount "$MOUNTED"
}

# files_stay NAME: jobs write files with checksums, sync, rename and remove, and read all back.
files_stay() {
	local files=$MOUNTED/a:$MOUNTED/b:$MOUNTED/c:$MOUNTED/d copy load status=0

	verified_io "$1" "$files" --rw=randwrite --bsrange=4k-64k \
		--iodepth=8 --size=${MIB}M --fsync=16 --end_fsync=1 &
	load=$!
	for copy in 1 2 3 4; do
		cp -r "$HERE" "$MOUNTED/copy" && sync "$MOUNTED/copy" &&
			mv "$MOUNTED/copy" "$MOUNTED/copy-$copy"
	done
	echo 3 >/proc/sys/vm/drop_caches
	for copy in 1 2 3 4; do
		want "difference after copying" "" \
			"$(diff -r "$HERE" "$MOUNTED/copy-$copy" 2>&1 | head -n 2)" || status=1
		rm -r "$MOUNTED/copy-$copy"
	done
	wait $load || status=1
	return $status
}

# ext4_keeps_data MODE CIPHER IRQMODE
ext4_keeps_data() {
	null_disk size=128 "irqmode=$3" completion_nsec=10000
	crypt ext4 "$2" ${FLAGS[$1]}
	mounted ext4 mkfs.ext4 e2fsck
	files_stay ext4
	want "status of the load" 0 $?
	undo_last
	want "e2fsck" success "$(outcome e2fsck -fn "$MAPPED")"
}

scrub() { btrfs scrub start -B "$MOUNTED" 2>&1; }

# btrfs_scrub_finds_nothing MODE CIPHER IRQMODE
btrfs_scrub_finds_nothing() {
	local clean="no errors found"

	null_disk size=256 "irqmode=$3" completion_nsec=10000
	crypt scrubbed "$2" ${FLAGS[$1]}
	mounted btrfs "mkfs.btrfs -f" btrfs
	files_stay scrubbed &
	want "scrub during the load" "$clean" "$(scrub | grep -o "$clean")"
	wait $!
	want "status of the load" 0 $?
	want "scrub after it" "$clean" "$(scrub | grep -o "$clean")"
}

requires fio modes async

for irqmode in 1 2; do
	CASES+=("ext4_keeps_data both aes-xts-plain64 $irqmode"
		"btrfs_scrub_finds_nothing both aes-xts-plain64 $irqmode")
done
CASES+=("ext4_keeps_data both async-xts 2" "btrfs_scrub_finds_nothing both async-xts 2")
quick_cases "ext4_keeps_data both aes-xts-plain64 1" "btrfs_scrub_finds_nothing both aes-xts-plain64 2"
run
