# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # what is set here is for the tests
#
# Devices, mappings, verified I/O and the kernel log for the dm-crypt tests.
# Everything made here has a private name and is undone by `defer` of ktap.sh.

export LC_ALL=C

NULLB=/sys/kernel/config/nullb
PREFIX=dm-crypt-test-$$

# The modes a mapping can have, and the optional arguments each one takes.
MODES=(default no_read no_write both)
declare -A FLAGS=(
	[default]=""
	[no_read]="no_read_workqueue"
	[no_write]="no_write_workqueue"
	[both]="no_read_workqueue no_write_workqueue"
)

# A cipher that always completes asynchronously.
ASYNC_XTS="capi:cryptd(xts(ecb(aes-generic)))-plain64"

require_root() {
	[ "$(id -u)" -eq 0 ] || skip_all "needs root"
}

require_programs() {
	local program

	for program in "$@"; do
		command -v "$program" >/dev/null || skip_all "needs $program"
	done
}

# The feature is tested, not guessed at: a kernel without it is a skip.
require_flags() {
	local version

	modprobe -q dm-crypt
	version=$(dmsetup targets | awk '$1 == "crypt" { print substr($2, 2) }')
	[ -n "$version" ] || skip_all "needs CONFIG_DM_CRYPT"
	[ "$(printf '%s\n' 1.22.0 "$version" | sort -V | head -n 1)" = 1.22.0 ] ||
		skip_all "dm-crypt $version has no no_read_workqueue and no_write_workqueue"
}

require_null_blk() {
	modprobe -q configfs
	modprobe -q null_blk nr_devices=0
	mountpoint -q /sys/kernel/config ||
		mount -t configfs configfs /sys/kernel/config 2>/dev/null
	[ -d "$NULLB" ] || skip_all "needs CONFIG_BLK_DEV_NULL_BLK and CONFIG_CONFIGFS_FS"
}

# null_disk NAME MIB [ATTRIBUTE=VALUE]...: a RAM-backed disk that completes as
# irqmode says (0 in the submitter, 1 in softirq, 2 in a timer's interrupt).
# Its path is left in $DISK.
null_disk() {
	local dir=$NULLB/$PREFIX-$1 mib=$2 attribute

	shift 2
	mkdir "$dir" || broken "cannot create a null_blk device"
	defer rmdir "$dir"
	for attribute in memory_backed=1 "size=$mib" blocksize=512 submit_queues=1 "$@" power=1; do
		echo "${attribute#*=}" >"$dir/${attribute%%=*}" || broken "null_blk refuses $attribute"
	done
	defer sh -c "echo 0 >$dir/power"
	DISK=/dev/nullb$(cat "$dir/index")
	[ -b "$DISK" ] || broken "$DISK did not appear"
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
	printf '%d:%d\n' "0x$(stat -Lc %t "$1")" "0x$(stat -Lc %T "$1")"
}

sectors_of() {
	blockdev --getsz "$1"
}

# crypt_table DEVICE CIPHER KEY [OPTIONAL ARGUMENT]...
crypt_table() {
	local device=$1 cipher=$2 key=$3

	shift 3
	printf '0 %d crypt %s %s 0 %s 0' "$(sectors_of "$device")" "$cipher" "$key" "$device"
	[ $# -eq 0 ] || printf ' %d %s' $# "$*"
	printf '\n'
}

# map NAME TABLE: a mapping that must come up. Its path is left in $MAPPED, and
# the kernel log is marked right before it.
# Only a cipher that the kernel does not have makes it a skip, with status 1.
map() {
	mark_log
	if ! dmsetup create "$PREFIX-$1" <<<"$2"; then
		log_since_mark | grep -q "Error allocating crypto tfm" || broken "dmsetup create failed: $2"
		skip "the kernel lacks the cipher of: $2"
		return 1
	fi
	defer dmsetup remove --retry "$PREFIX-$1"
	udevadm settle 2>/dev/null
	MAPPED=/dev/mapper/$PREFIX-$1
	[ -b "$MAPPED" ] || broken "$MAPPED did not appear"
}

# map_flags NAME CIPHER KEY_BYTES MODE: all of $DISK, with the mode's flags, which
# the table then has to show.
map_flags() {
	# shellcheck disable=SC2086
	map "$1" "$(crypt_table "$DISK" "$2" "$(key "$3")" ${FLAGS[$4]})" || return
	want "flags of the mapping" "${FLAGS[$4]}" "$(dmsetup table "$PREFIX-$1" | cut -d ' ' -f 10-)"
}

# key BYTES: an obviously fake key, every byte different from its neighbour.
key() {
	local i

	for ((i = 1; i <= $1; i++)); do
		printf '%02x' $((i * 7 % 256))
	done
}

# Remember this point of the kernel log; later looks begin here.
mark_log() {
	LOG_MARK="$PREFIX-mark-$RANDOM$RANDOM"
	echo "$LOG_MARK" >/dev/kmsg || broken "cannot write to /dev/kmsg"
}

log_since_mark() {
	dmesg | sed "1,/$LOG_MARK/d"
}

# What no test may provoke: reports of the kernel's debugging aids, lost I/O.
COMPLAINTS='BUG:|WARNING:|KASAN|UBSAN|Oops|ODEBUG|INFO: task|lockup|stall|sleeping function'
COMPLAINTS+='|scheduling while atomic|inconsistent lock state|suspicious RCU|I/O error|page allocation failure'

no_complaints() {
	want "kernel messages" "" "$(log_since_mark | grep -E "$COMPLAINTS" | head -n 5)"
}

# verified_io NAME FILE [FIO OPTION]...: run fio, whose data carry checksums,
# and want no error from it. The last job's output is kept for the message.
verified_io() {
	local name=$1 file=$2 log

	shift 2
	log=$(mktemp) || broken "mktemp failed"
	fio --name="$name" --filename="$file" --direct=1 --ioengine=libaio \
		--verify=crc32c --verify_fatal=1 --group_reporting --minimal "$@" >"$log" 2>&1
	want "fio exit status ($name)" 0 $?
	# Terse output, field 5: the error of the first job that had one.
	want "fio errors ($name)" 0 "$(awk -F';' '/^3;/ { if ($5) e = $5 } END { print e + 0 }' "$log")" ||
		diag "$(grep -v -e '^3;' -e 'multiple writers' "$log" | head -n 4)"
	rm -f "$log"
}
