#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="systemd-cryptsetup sets the performance options of crypttab, and systemd-repart stores EncryptFlags="
#
# A volume whose LUKS2 header has flags of repart is opened with them without a crypttab option.
# Requires: root, dmsetup, null_blk, mkfs.ext4, loop devices, the patched systemd in TREE, cryptsetup 2.8 in
# CRYPTSETUP_PREFIX.
# Risks: none.

. "$(dirname "$0")/../cryptsetup/volumes.sh"

ALL=(same-cpu-crypt high-priority submit-from-crypt-cpus no-read-workqueue no-write-workqueue) # in the order of the table
export LD_LIBRARY_PATH=$CRYPTSETUP_PREFIX/lib

# write_key: the passphrase, without a line end.
write_key() { (umask 077 && printf %s "$SECRET" >"$WORK/key"); }

# attach OPTION...: open the volume on $DEVICE without a message about an option. libcryptsetup drops
# options that the kernel does not support.
attach() {
	local options=headless${*:+ $*}

	write_key
	defer close_volume
	"$TREE/build/systemd-cryptsetup" attach "$VOLUME" "$DEVICE" "$WORK/key" "${options// /,}" >"$WORK/out" 2>&1
	want "exit status of systemd-cryptsetup" 0 $? || diag "$(<"$WORK/out")"
	want "messages about options" "" "$(grep -i option "$WORK/out")"
}

# supported OPTION...: print the arguments that the table of this kernel has for these options.
supported() {
	local word words=()

	for word; do
		case $word in
		*=*) ;;
		discard) words+=(allow_discards) ;;
		high-priority) [ "$HIGH_PRIORITY" = no ] || words+=(high_priority) ;;
		*-*) words+=("${word//-/_}") ;;
		esac
	done
	counted "${words[@]}"
}

# set_by TYPE OPTION...: the volume of this type, opened with options.
set_by() {
	local type=$1

	shift
	volume "$type"
	[ "$type" != plain ] || set -- plain cipher=aes-xts-plain64 size=512 hash=sha256 "$@"
	attach "$@"
	want "options in the table" "$(supported "$@")" "$(arguments "$VOLUME")"
}

# repart_stores OFFLINE FLAG...: repart makes an image, with or without dm-crypt.
repart_stores() {
	local SECRET=fake-passphrase offline=$1

	shift
	mkdir -p "$WORK/definitions"
	cat >"$WORK/definitions/volume.conf" <<-EOF
		[Partition]
		Type=linux-generic
		Format=ext4
		AddValidateFS=no
		FileSystemSectorSize=512
		SizeMinBytes=64M
		Encrypt=key-file
		EncryptKDF=minimal
		EncryptFlags=no-such-flag $*
	EOF
	write_key
	rm -f "$WORK/image"
	"$TREE/build/systemd-repart" --definitions="$WORK/definitions" --key-file="$WORK/key" --offline="$offline" \
		--empty=create --size=100M --seed=random --dry-run=no "$WORK/image" >"$WORK/out" 2>&1
	want "exit status of systemd-repart" 0 $? || diag "$(<"$WORK/out")"
	want "unknown flags" "Unknown flag in EncryptFlags=, ignoring: no-such-flag" "$(grep -o 'Unknown .*' "$WORK/out")"
	DEVICE=$(losetup --find --show --offset 1MiB "$WORK/image") || broken "no loop device"
	defer losetup -d "$DEVICE"
	set -- discard "$@"
	attach
	want "options in the table" "$(supported "$@")" "$(arguments "$VOLUME")"
}

requires_cryptsetup flags
[ -x "$TREE/build/systemd-cryptsetup" ] && [ -x "$TREE/build/systemd-repart" ] ||
	skip "needs the patched systemd in TREE"
takes null high_priority || HIGH_PRIORITY=no

CASES=("set_by luks2")
for option in "${ALL[@]}"; do
	CASES+=("set_by luks2 $option")
done
CASES+=("set_by luks2 discard ${ALL[*]}" "set_by luks1 ${ALL[*]}" "set_by plain ${ALL[*]}")
for offline in yes no; do
	for flags in "" "no-read-workqueue no-write-workqueue" "${ALL[*]}"; do
		CASES+=("repart_stores $offline${flags:+ $flags}")
	done
done
run
