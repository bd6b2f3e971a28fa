# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Disks that fail, for the tests that look at what becomes of the requests.

# below NAME TARGET ARGUMENTS: a mapping of all of $DISK, which takes its place.
below() {
	local name=$PREFIX-$1

	shift
	dmsetup create "$name" --table "0 $(sectors_of "$DISK") $*" ||
		broken "dmsetup create failed: $*"
	defer dmsetup remove --retry "$name"
	DISK=/dev/mapper/$name
}

# failed_requests RW MIB: how many requests, 16 for each MiB, fio saw fail.
failed_requests() {
	fio --name=errors --filename="$MAPPED" --direct=1 --ioengine=libaio --rw="$1" --bs=64k \
		--iodepth=8 --size="$2M" --continue_on_error=all \
		--output-format=json 2>/dev/null |
		awk -F '[:,]' '/"total_err"/ { print $2 + 0 }'
}
