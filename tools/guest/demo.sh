#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The demonstration: tables, and a LUKS2 volume with the flags. It needs the modules of the series, and
# the patched cryptsetup below $CRYPTSETUP_PREFIX.

BOTH="no_read_workqueue no_write_workqueue"
NULL_CIPHER="capi:ecb(cipher_null) -"

die() {
	echo "FAILED: $*"
	exit 1
}

same() { # SUBJECT EXPECTED ACTUAL
	[ "$2" = "$3" ] || die "$1: expected \"$2\", got \"$3\""
}

version() {
	dmsetup targets | awk '$1 == "crypt" { print $2 }'
}

# The optional arguments of a mapping, without their count.
flags_of() {
	dmsetup table "$1" | cut -d ' ' -f 10-
}

tables() {
	local flags table back sectors number

	echo "== Tables: created, read back, created again from the result"
	sectors=$(blockdev --getsz /dev/ram0)
	number=$(printf '%d:%d' "0x$(stat -c %t /dev/ram0)" "0x$(stat -c %T /dev/ram0)")
	for flags in "" " 1 no_read_workqueue" " 1 no_write_workqueue" " 2 $BOTH"; do
		table="0 $sectors crypt $NULL_CIPHER 0 $number 0$flags"
		dmsetup create table --table "$table" || die "dmsetup create"
		back=$(dmsetup table --showkeys table)
		dmsetup remove --retry table || die "dmsetup remove"
		same "table" "$table" "$back"
		dmsetup create table --table "$back" || die "dmsetup create from the table that was read back"
		same "table created again" "$table" "$(dmsetup table --showkeys table)"
		dmsetup remove --retry table || die "dmsetup remove"
		echo "   same: $back"
	done
}

# The patched cryptsetup. The passphrase is fixed, and no secret.
cryptsetup() {
	printf 'not a secret' | "$CRYPTSETUP_PREFIX/sbin/cryptsetup" "$@" || die "cryptsetup $*"
}

# active WHEN EXPECTED: print and check the flags of the open volume.
active() {
	local flags

	flags=$(flags_of volume)
	echo "   $1: ${flags:-no flags}"
	same "flags of the volume" "$2" "$flags"
}

contents() {
	mount /dev/mapper/volume "$HOME/mnt" || die "mount"
	sha256sum <"$HOME/mnt/data"
	umount "$HOME/mnt" || die "umount"
}

luks() {
	local written stored flags=(--perf-no_read_workqueue --perf-no_write_workqueue)

	echo "== A LUKS2 volume with an ext4 file system ($(cryptsetup --version | cut -d " " -f 1,2) with its queue)"
	cryptsetup luksFormat --type luks2 --batch-mode --key-file=- --sector-size 512 \
		--pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/ram0
	cryptsetup open --key-file=- /dev/ram0 volume
	active "opened without options" ""
	mkdir -p "$HOME/mnt"
	mkfs.ext4 -q /dev/mapper/volume || die "mkfs.ext4"
	mount /dev/mapper/volume "$HOME/mnt" || die "mount"
	head -c 8M /dev/urandom >"$HOME/mnt/data" || die "writing"
	written=$(sha256sum <"$HOME/mnt/data")
	umount "$HOME/mnt" || die "umount"
	cryptsetup refresh --key-file=- --persistent "${flags[@]}" volume
	active "refreshed with ${flags[*]} --persistent" "$BOTH"
	same "data read back with the flags" "$written" "$(contents)"
	cryptsetup close volume
	stored=$(cryptsetup luksDump /dev/ram0 | awk '$1 == "Flags:" { $1 = ""; print substr($0, 2) }')
	echo "   closed; the header says: $stored"
	same "flags in the header" "no-read-workqueue no-write-workqueue" "$stored"
	cryptsetup open --key-file=- /dev/ram0 volume
	active "opened again, without options" "$BOTH"
	same "data read back with the flags" "$written" "$(contents)"
	cryptsetup refresh --key-file=- --persistent volume
	active "refreshed with --persistent alone" ""
	same "data read back without the flags" "$written" "$(contents)"
	cryptsetup close volume
	echo "   the same 8 MiB each time: ${written%% *}"
}

modprobe brd rd_nr=1 rd_size=65536 || die "no RAM disk"
modprobe dm-crypt || die "the module does not load"
echo "== dm-crypt target version: $(version)"
same "target version" "v1.22.0" "$(version)"
tables
luks
