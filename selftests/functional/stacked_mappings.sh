#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: inline mappings can lie over and under others: dm-linear and snapshots
# over them, one over another, in any combination of modes.
# Needs: root, dmsetup, fio, null_blk; dm-snapshot for its claim.
# Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

IO="--rw=randwrite --bsrange=4k-64k --iodepth=16 --size=$(full_or_quick 16 4)M"

# over NAME TABLE: a mapping of another target; $MAPPED is its path then.
over() {
	dmsetup create "$PREFIX-$1" --table "$2" || broken "dmsetup create failed: $2"
	defer dmsetup remove --retry "$PREFIX-$1"
	MAPPED=/dev/mapper/$PREFIX-$1
}

# crypt_over_crypt UPPER_MODE/LOWER_MODE CIPHER IRQMODE
crypt_over_crypt() {
	null_disk stacked 64 "irqmode=$3" completion_nsec=10000
	map_flags lower "$2" 64 "${1#*/}" || return 0
	DISK=$MAPPED
	map_flags upper "$2" 64 "${1%/*}" || return 0
	verified_io stacked "$MAPPED" $IO
	no_complaints
}

# linear_over_crypt MODE IRQMODE: two pieces in exchanged order, as LVM makes them.
linear_over_crypt() {
	local half

	null_disk linear 64 "irqmode=$2" completion_nsec=10000
	map_flags linear-crypt aes-xts-plain64 64 "$1" || return 0
	half=$(($(sectors_of "$MAPPED") / 2))
	over linear "0 $half linear $MAPPED $half
$half $half linear $MAPPED 0"
	verified_io linear "$MAPPED" $IO
	no_complaints
}

# snapshot_of_crypt MODE: each first write reads and copies through the mapping.
snapshot_of_crypt() {
	local origin

	modprobe -q dm-snapshot
	if ! dmsetup targets 2>/dev/null | grep -q ^snapshot; then
		skip "needs the device mapper target snapshot"
		return
	fi
	null_disk snapshot 64 irqmode=2 completion_nsec=10000
	map_flags origin aes-xts-plain64 64 "$1" || return 0
	origin=$MAPPED
	null_disk cow 64 irqmode=1
	map_flags cow aes-xts-plain64 64 "$1" || return 0
	over snapshot "0 $(sectors_of "$origin") snapshot $origin $MAPPED N 16"
	verified_io snapshot "$MAPPED" $IO
	no_complaints
}

needs fio null_blk modes async

CLAIMS=()
for irqmode in 0 1 2; do
	CLAIMS+=("crypt_over_crypt both/both aes-xts-plain64 $irqmode"
		"linear_over_crypt both $irqmode")
done
for mode in default no_read no_write; do
	CLAIMS+=("crypt_over_crypt $mode/both aes-xts-plain64 2"
		"crypt_over_crypt both/$mode aes-xts-plain64 2")
done
CLAIMS+=("crypt_over_crypt both/both async-xts 2"
	"snapshot_of_crypt both" "snapshot_of_crypt no_write")
quick_claims "crypt_over_crypt both/both aes-xts-plain64 1" \
	"linear_over_crypt both 2" \
	"snapshot_of_crypt both"
run_claims
