# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2119,SC2120 # the tests use what is set here, and give arguments
#
# Volumes of every type that cryptsetup opens with dm-crypt, and their state.
#
# The patched cryptsetup is below $CRYPTSETUP_PREFIX; $CRYPTSETUP_TESTS is the
# directory with cryptsetup's own tests and images. $CRYPTSETUP, when set, names
# another program to test.

. "${BASH_SOURCE[0]%/*}/../functional/common.sh"
. "${BASH_SOURCE[0]%/*}/header.sh"

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
VOLUME=$NAME-volume
COPY=16384 # bytes of one copy of the LUKS2 metadata, binary header and JSON

# requires_cryptsetup WORD...: words as for `requires`.
requires_cryptsetup() {
	[ -x "$CRYPTSETUP" ] || skip "needs the patched cryptsetup in CRYPTSETUP_PREFIX"
	requires losetup "$@"
	WORK=$(mktemp -d) || broken "mktemp failed"
	defer rm -rf "$WORK"
	# cryptsetup warns when it has to make this directory; other messages count.
	[ -d /run/cryptsetup ] || mkdir -m 0700 /run/cryptsetup || broken "cannot create /run/cryptsetup"
}

# requires_no_flags: cryptsetup asks for the version too.
requires_no_flags() {
	dmsetup targets | awk '$1 == "crypt" { split($2, v, "."); exit v[2] >= 22 }' ||
		skip "this dm-crypt knows no_read_workqueue and no_write_workqueue"
}

# unload: dm-crypt, so that its version is unknown.
unload() {
	modprobe -r dm-crypt 2>/dev/null || skip "dm-crypt is in use or not a module"
	! dmsetup targets | grep -q '^crypt ' || broken "dm-crypt is still loaded"
}

# cs ARGUMENT...: run cryptsetup with the passphrase of the volume at its standard
# input. Sets $SAID to its messages, $ERRORS to those at standard error.
cs() {
	local status

	printf '%s\n' "$SECRET" | "$CRYPTSETUP" "$@" >"$WORK/out" 2>"$WORK/err"
	status=$?
	ERRORS=$(<"$WORK/err")
	SAID=$(cat "$WORK/err" "$WORK/out")
	return $status
}

# works ARGUMENT...: cryptsetup must succeed.
works() {
	cs "$@"
	want "exit status of cryptsetup $*" 0 $? || diag "$SAID"
}

# silent ARGUMENT...: cryptsetup must succeed without a message.
silent() { works "$@" && want "messages of cryptsetup $*" "" "$SAID"; }

# setup ARGUMENT...: a step before the test.
setup() { cs "$@" || broken "cryptsetup $* failed: $SAID"; }

# image ARCHIVE FILE...: volumes made by other programs. Sets $DEVICE to the last one.
image() {
	local archive=$1

	shift
	[ -e "$CRYPTSETUP_TESTS/$archive.tar.xz" ] || skip "needs $archive.tar.xz in CRYPTSETUP_TESTS"
	tar -xJSf "$CRYPTSETUP_TESTS/$archive.tar.xz" -C "$WORK" --no-same-owner "${@/#/$archive/}" ||
		broken "cannot unpack $* of $archive.tar.xz"
	defer rm -rf "${WORK:?}/$archive"
	DEVICE=$(losetup --find --show "$WORK/$archive/${!#}") || broken "no loop device for ${!#}"
	defer losetup -d "$DEVICE"
}

# slow_disk MS: every write to $DEVICE takes so long from now on.
slow_disk() {
	below slow delay "$DEVICE" 0 0 "$DEVICE" 0 "$1"
	OPEN[-1]=$DEVICE
}

# format ARGUMENT...: a LUKS volume on $DEVICE, its data from 4 MiB on. A copy of the first one saves
# the seconds in which cryptsetup measures how fast the machine hashes.
format() {
	local first

	first=$WORK/$(sha256sum <<<"$CRYPTSETUP $*" | cut -c 1-16)
	if [ -e "$first" ]; then
		dd if="$first" of="$DEVICE" bs=1M oflag=direct status=none || broken "cannot write to $DEVICE"
		return
	fi
	setup luksFormat -q "${FAST_KDF[@]}" --offset 8192 "$@" "$DEVICE"
	dd if="$DEVICE" of="$first" bs=1M iflag=direct conv=sparse status=none || broken "no room for $first"
}

# volume TYPE: create one. Sets $DEVICE, OPEN (the arguments that open it), $SECRET (its passphrase),
# $LAYERS (the number of its mappings), $ALWAYS (the optional arguments of all its tables), and $TAGS
# if it has a mapping for tags below.
volume() {
	SECRET=fake-passphrase ALWAYS="" LAYERS=1 TAGS=""
	case $1 in
	plain | luks* | loopaes) null_disk size=12 irqmode=1 ;;
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
		image tcrypt-images tc_5-ripemd160-xts-aes
		SECRET=aaaaaaaaaaaa OPEN=(--type tcrypt)
		;;
	tcrypt-chain)
		image tcrypt-images tc_3-ripemd160-xts-serpent-twofish-aes
		SECRET=aaaaaaaaaaaa OPEN=(--type tcrypt) LAYERS=3
		;;
	bitlk-xts)
		image bitlk-images bitlk-aes-xts-128.img
		SECRET=anaconda OPEN=(--type bitlk)
		;;
	bitlk-elephant)
		image bitlk-images bitlk-aes-cbc-elephant-128.img
		SECRET=anaconda OPEN=(--type bitlk)
		;;
	*) broken "unknown type of volume: $1" ;;
	esac
	OPEN+=("$DEVICE")
}

# open_volume [OPTION]...: as $VOLUME, until the end of the test case.
open_volume() {
	works open "${OPEN[@]}" "$VOLUME" "$@" || fail "the volume is not open"
	defer close_volume
}

# close_volume: if it is open.
close_volume() {
	dmsetup info "$VOLUME" >/dev/null 2>&1 || return 0
	# close would wait for a suspended device.
	dmsetup resume "$VOLUME" >/dev/null 2>&1
	"$CRYPTSETUP" close "$VOLUME"
}

# arguments MAPPING: print count and words of the optional arguments, one line for all
# dm-crypt segments that agree.
arguments() {
	dmsetup table "$1" | awk '
		$3 == "crypt" { line = NF < 9 ? 0 : $9; for (i = 10; i <= NF; i++) line = line " " $i; print line }
	' | sort -u
}

# counted WORD...: print them as the table has them.
counted() { echo "$#${*:+ $*}"; }

status_line() { "$CRYPTSETUP" status "$1" 2>/dev/null | grep '^ *flags'; }

# active FLAGS [STATUS WORD]...: in all layers of the volume, and in its status.
# Status words of other flags come first, and are words of the table too.
active() {
	local flags=$1 layer=$VOLUME number words

	shift
	words="${*/#discards/allow_discards} $flags $ALWAYS"
	for ((number = 1; number <= LAYERS; number++)); do
		# The words are to be counted.
		want "arguments of $layer" "$(counted $words)" "$(arguments "$layer")"
		layer=${VOLUME}_$number
	done
	set -- "$@" "$flags"
	flags=$*
	flags=${flags% }
	want "flags in the status" "${flags:+  flags:   $flags}" "$(status_line "$VOLUME")"
}

# content: print a checksum of the data of the open volume.
content() { head -c 4M "/dev/mapper/$VOLUME" | sha256sum; }

# header [DEVICE]: print a checksum of everything before the data.
header() { dd if="${1:-$DEVICE}" bs=1M count=4 iflag=direct status=none | sha256sum; }

# warned [OPTION]...: cryptsetup printed one warning at standard error, that the device does not have the given
# options, and a line if --persistent has not stored an OPTION.
warned() {
	want "messages" "WARNING: Device $VOLUME was activated without the requested workqueue options; the kernel refused \
them.${1:+$'\n'Device activated but cannot make all flags persistent.}" "$SAID"
	want "messages at standard error" "$SAID" "$ERRORS"
}
