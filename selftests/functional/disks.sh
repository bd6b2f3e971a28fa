# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # what is set here is for the tests
#
# Disks for the dm-crypt tests to map, made of memory, and what they say of
# themselves. Everything made here has a private name and is undone by `defer` of
# ktap.sh.

NULLB=/sys/kernel/config/nullb

# null_disk NAME MIB [ATTRIBUTE=VALUE]...: a RAM-backed disk that completes as
# irqmode says (0 in the submitter, 1 in softirq, 2 in a timer's interrupt).
# Its path is left in $DISK. An attribute that is refused breaks the test, unless
# $REFUSED says what else to do.
null_disk() {
	local dir=$NULLB/$PREFIX-$1 mib=$2 attribute file

	shift 2
	mkdir "$dir" || broken "cannot create a null_blk device"
	defer rmdir "$dir"
	# With a queue for polling, which newer kernels add, irqmode=1 would not mean softirq. There it
	# does not with one CPU either.
	[ ! -e "$dir/poll_queues" ] || set -- poll_queues=0 "$@"
	for attribute in memory_backed=1 "size=$mib" blocksize=512 submit_queues=1 "$@" power=1; do
		file=$dir/${attribute%%=*}
		echo "${attribute#*=}" >"$file" || ${REFUSED:-broken} "null_blk refuses $attribute"
	done
	defer power_off "$dir"
	find_null_disk "$dir"
}

power_off() {
	echo 0 >"$1/power"
}

# find_null_disk DIR: the node of a disk that has power, in $DISK. Some kernels
# call it by the name of its directory, others by a number.
find_null_disk() {
	DISK=/dev/${1##*/}
	[ -b "$DISK" ] || DISK=/dev/nullb$(cat "$1/index")
	[ -b "$DISK" ] || broken "$DISK did not appear"
}

# any_disk NAME MIB: a disk of null_blk or, where there is none, a loop device on
# a file. Its path is left in $DISK.
any_disk() {
	local file

	if [ -d "$NULLB" ] || (needs_null_blk >/dev/null); then
		needs_null_blk
		null_disk "$@"
		return
	fi
	file=$(mktemp) || broken "mktemp failed"
	defer rm "$file"
	truncate -s "$2M" "$file" || broken "no room for a file of $2 MiB"
	DISK=$(losetup --find --show "$file") || skip_all "needs null_blk or loop"
	defer losetup --detach "$DISK"
}

# integrity_disk DEVICE TAG_BYTES SECTOR_BYTES: storage for tags over a zeroed
# device, with no checksums of its own. Its path is left in $TAGGED.
integrity_disk() {
	local name=$PREFIX-tags arguments="$1 0 $2 D 1 block_size:$3" sectors

	# The size is known once the superblock has been written.
	dmsetup create "$name" --table "0 8 integrity $arguments" || broken "no tags over $1"
	sectors=$(dmsetup status "$name" | cut -d ' ' -f 5)
	dmsetup remove --retry "$name" || broken "cannot remove $name"
	dmsetup create "$name" --table "0 $sectors integrity $arguments" || broken "no tags over $1"
	defer dmsetup remove --retry "$name"
	TAGGED=/dev/mapper/$name
}

numbers_of() {
	local major minor

	read -r major minor <<<"$(stat -Lc '%t %T' "$1")"
	printf '%d:%d\n' "0x$major" "0x$minor"
}

sectors_of() {
	blockdev --getsz "$1"
}
