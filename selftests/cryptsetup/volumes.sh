# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2119,SC2120 # what is set here is for the tests, as are arguments
#
# Volumes of every type that cryptsetup opens with dm-crypt, and what to look
# at once they are open. Sourced after ktap.sh and dm_crypt.sh.
#
# The patched cryptsetup is below $CRYPTSETUP_PREFIX; $CRYPTSETUP_TESTS is the
# directory with cryptsetup's own tests and images. $CRYPTSETUP, when set, names
# another program to test, which is how a test is shown to fail.

CRYPTSETUP=${CRYPTSETUP:-$CRYPTSETUP_PREFIX/sbin/cryptsetup}
RELEASED=/sbin/cryptsetup # the distribution's, without our patches
FAST_KDF=(--pbkdf pbkdf2 --pbkdf-force-iterations 1000)
ALL_TYPES=(plain luks1 luks2 luks2-aead luks2-hmac loopaes tcrypt tcrypt-chain bitlk-xts bitlk-elephant)
NO_READ=--perf-no_read_workqueue
NO_WRITE=--perf-no_write_workqueue
declare -A OPTIONS=([default]="" [no_read]="$NO_READ" [no_write]="$NO_WRITE" [both]="$NO_READ $NO_WRITE")
# The flags as the LUKS2 header has them.
declare -A STORED=([default]="" [no_read]="no-read-workqueue" [no_write]="no-write-workqueue"
	[both]="no-read-workqueue no-write-workqueue")
NAME=$PREFIX-volume
COPY=16384 # bytes of one copy of the LUKS2 metadata, binary header and JSON

# require_cryptsetup WORD...: words as for `needs`.
require_cryptsetup() {
	[ -x "$CRYPTSETUP" ] || skip_all "needs the patched cryptsetup in CRYPTSETUP_PREFIX"
	needs null_blk losetup "$@"
	WORK=$(mktemp -d) || broken "mktemp failed"
	defer rm -rf "$WORK"
	# cryptsetup warns when it has to make this directory; other messages count.
	[ -d /run/cryptsetup ] || mkdir -m 0700 /run/cryptsetup || broken "cannot create /run/cryptsetup"
}

# A kernel whose dm-crypt has a version without the flags. cryptsetup goes by that too.
require_no_flags() {
	local version

	modprobe -q dm-crypt
	version=$(dmsetup targets | awk '$1 == "crypt" { print substr($2, 2) }')
	[ -n "$version" ] || skip_all "needs CONFIG_DM_CRYPT"
	[ "$(printf '%s\n' 1.22.0 "$version" | sort -V | head -n 1)" != 1.22.0 ] ||
		skip_all "dm-crypt $version knows no_read_workqueue and no_write_workqueue"
}

# cs ARGUMENT...: run cryptsetup with the passphrase of the volume at its standard
# input. What it says is left in $SAID, its standard error alone in $COMPLAINED.
cs() {
	local status

	printf '%s\n' "$SECRET" | "$CRYPTSETUP" "$@" >"$WORK/out" 2>"$WORK/err"
	status=$?
	COMPLAINED=$(<"$WORK/err")
	SAID=$(cat "$WORK/err" "$WORK/out")
	return $status
}

# works ARGUMENT...: cryptsetup has to succeed, and may speak.
works() {
	cs "$@"
	want "exit status of cryptsetup $*" 0 $? || diag "$SAID"
}

# silent ARGUMENT...: it has to succeed without a word.
silent() {
	works "$@" && want "messages of cryptsetup $*" "" "$SAID"
}

# setup ARGUMENT...: a step that the claim only stands on.
setup() {
	cs "$@" || broken "cryptsetup $* failed: $SAID"
}

loop_device() {
	DISK=$(losetup --find --show "$1") || broken "no loop device for $1"
	defer losetup -d "$DISK"
}

# image ARCHIVE FILE...: volumes made by other programs. The last one gets $DISK.
image() {
	local archive=$1

	shift
	if ! [ -e "$CRYPTSETUP_TESTS/$archive.tar.xz" ]; then
		skip "needs $archive.tar.xz in CRYPTSETUP_TESTS"
		return 1
	fi
	tar -xJSf "$CRYPTSETUP_TESTS/$archive.tar.xz" -C "$WORK" --no-same-owner "${@/#/$archive/}" ||
		broken "cannot unpack $* of $archive.tar.xz"
	defer rm -rf "${WORK:?}/$archive"
	loop_device "$WORK/$archive/${!#}"
}

# slow_disk MS: every write to $DISK takes so long from now on.
slow_disk() {
	local name=$PREFIX-slow

	dmsetup create "$name" --table "0 $(sectors_of "$DISK") delay $DISK 0 0 $DISK 0 $1" ||
		broken "cannot make a slow device"
	defer dmsetup remove --retry "$name"
	DISK=/dev/mapper/$name
	OPEN[-1]=$DISK
}

# format ARGUMENT...: a LUKS volume on $DISK, its data from 4 MiB on. Seconds are lost
# each time in measuring how much hashing the machine can do: copy the first one.
format() {
	local first

	first=$WORK/$(sha256sum <<<"$CRYPTSETUP $*" | cut -c 1-16)
	if [ -e "$first" ]; then
		dd if="$first" of="$DISK" bs=1M oflag=direct status=none || broken "cannot write to $DISK"
		return
	fi
	setup luksFormat -q "${FAST_KDF[@]}" --offset 8192 "$@" "$DISK"
	dd if="$DISK" of="$first" bs=1M iflag=direct conv=sparse status=none || broken "no room for $first"
}

# volume TYPE: make one. Sets $DISK, the arguments that open it in OPEN, what it
# reads as a passphrase in $SECRET, how many mappings it takes in $LAYERS, the
# optional arguments that its tables always have in $ALWAYS, and $TAGS when it has a
# mapping for tags below. Fails where it skips.
volume() {
	SECRET=fake-passphrase ALWAYS="" LAYERS=1 TAGS=""
	case $1 in
	plain | luks* | loopaes) null_disk "${NAME#"$PREFIX-"}" 12 ;;
	esac
	case $1 in
	plain) OPEN=(-q --type plain --hash sha256 --cipher aes-xts-plain64 --key-size 512) ;;
	luks1 | luks2) format --type "$1" && OPEN=(--type luks) ;;
	luks2-aead)
		format --type luks2 --cipher aes-gcm-random --key-size 256 --integrity aead
		OPEN=(--type luks2) ALWAYS=integrity:28:aead TAGS=yes
		;;
	luks2-hmac)
		format --type luks2 --integrity hmac-sha256
		OPEN=(--type luks2) ALWAYS=integrity:32:aead TAGS=yes
		;;
	loopaes)
		# 64 keys, one a line.
		for _ in {1..64}; do head -c 45 /dev/urandom | base64 -w 0 && echo; done >"$WORK/loop_keys"
		OPEN=(--type loopaes --key-file "$WORK/loop_keys" --key-size 256)
		;;
	tcrypt)
		image tcrypt-images tc_5-ripemd160-xts-aes || return
		SECRET=aaaaaaaaaaaa OPEN=(--type tcrypt)
		;;
	tcrypt-chain)
		image tcrypt-images tc_3-ripemd160-xts-serpent-twofish-aes || return
		SECRET=aaaaaaaaaaaa OPEN=(--type tcrypt) LAYERS=3
		;;
	bitlk-xts)
		image bitlk-images bitlk-aes-xts-128.img || return
		SECRET=anaconda OPEN=(--type bitlk)
		;;
	bitlk-elephant)
		image bitlk-images bitlk-aes-cbc-elephant-128.img || return
		SECRET=anaconda OPEN=(--type bitlk)
		;;
	*) broken "unknown type of volume: $1" ;;
	esac
	OPEN+=("$DISK")
	return 0
}

# open_volume [OPTION]...: as $NAME, for the rest of the claim.
open_volume() {
	works open "${OPEN[@]}" "$NAME" "$@" || return
	defer close_volume "$NAME"
	udevadm settle 2>/dev/null
	return 0
}

# close_volume [NAME]: nothing to do when the claim has closed it already.
close_volume() {
	local name=${1:-$NAME}

	dmsetup info "$name" >/dev/null 2>&1 || return 0
	# A suspended device would keep its closer waiting.
	dmsetup resume "$name" >/dev/null 2>&1
	"$CRYPTSETUP" close "$name"
}

# arguments NAME: count and words of the optional arguments, one line for all
# dm-crypt segments that agree.
arguments() {
	dmsetup table "$1" | awk '
		$3 == "crypt" { line = NF < 9 ? 0 : $9; for (i = 10; i <= NF; i++) line = line " " $i; print line }
	' | sort -u
}

# counted WORD...: as the table has them.
counted() {
	printf '%s\n' "$#${*:+ $*}"
}

status_line() {
	"$CRYPTSETUP" status "$1" 2>/dev/null | grep '^ *flags'
}

# in_force FLAGS [STATUS WORD]...: in all layers of the volume, and in its status.
# Status words of other flags come first, and are words of the table too.
in_force() {
	local flags=$1 layer=$NAME number words

	shift
	words="${*/#discards/allow_discards} $flags $ALWAYS"
	for ((number = 1; number <= LAYERS; number++)); do
		# The words are to be counted.
		want "arguments of $layer" "$(counted $words)" "$(arguments "$layer")"
		layer=${NAME}_$number
	done
	set -- "$@" "$flags"
	flags=$*
	flags=${flags% }
	want "flags in the status" "${flags:+  flags:   $flags}" "$(status_line "$NAME")"
}

# content: checksum of what can be read through the mapping.
content() {
	head -c 4M "/dev/mapper/$NAME" | sha256sum
}

# header [DEVICE]: checksum of all that is not data.
header() {
	dd if="${1:-$DISK}" bs=1M count=4 iflag=direct status=none | sha256sum
}

# warned: cryptsetup said one thing, at standard error: options asked for are not in force.
warned() {
	want "messages" "WARNING: Device $NAME is active without no_read_workqueue and no_write_workqueue, \
these options need kernel 5.9 or later." "$SAID"
	want "messages at standard error" "$SAID" "$COMPLAINED"
}

# told_refused: likewise, that a refresh cannot do what it was asked for.
told_refused() {
	want "messages" "Requested dm-crypt performance options are not supported." "$SAID"
	want "messages at standard error" "$SAID" "$COMPLAINED"
}
