#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="systemd-repart stores the flags of EncryptFlags= in the LUKS2 header"
#
# A volume is then opened with these flags without a crypttab option.
# Requires: root, dmsetup, mkfs.ext4, loop devices, the patched systemd in TREE, cryptsetup 2.8 in CRYPTSETUP_PREFIX.
# Risks: none.

. "$(dirname "$0")/common.sh"

# repart_stores OFFLINE FLAG...: repart makes an image, with or without dm-crypt.
repart_stores() {
	local offline=$1

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

[ -x "$TREE/build/systemd-repart" ] || skip "needs the patched systemd-repart in TREE"
SECRET=fake-passphrase
for offline in yes no; do
	for flags in "" "no-read-workqueue no-write-workqueue" "${ALL[*]}"; do
		CASES+=("repart_stores $offline${flags:+ $flags}")
	done
done
run
