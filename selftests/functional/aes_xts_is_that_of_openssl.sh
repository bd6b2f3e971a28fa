#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: what lies on the disk below aes-xts is what OpenSSL makes of the data, whichever
# code of the kernel serves the mapping, and another implementation reads it: all sector
# sizes, IVs beyond 32 bits, keys of both lengths, requests that lie across pages. After
# "key set" it is the new key's.
# Needs: root, dmsetup, null_blk, libcrypto of OpenSSL 3, keyctl.
# Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

BYTES=$((92 * 1024)) REQUESTS=$((28 * 1024)) # no multiple of each other

# offsets SECTOR: 0, and such that the IV numbers reach 32, 35 and 64 bits inside a page of what
# is written, where sectors are smaller than half of one; "plain" goes on with 0 after 32. 35 are
# 32 in sectors of the largest size with iv_large_sectors.
offsets() {
	local step=$(($1 / 512)) before

	before=$(((18 + step - 1) / step * step))
	printf '0 %d %d %u\n' $(((1 << 32) - before)) $(((1 << 35) - before)) $((-before))
}

# mapped NAME CIPHER KEY IV_OFFSET [ARGUMENT]...
mapped() {
	local name=$1 cipher=$2 key=$3 offset=$4

	shift 4
	map "$name" "0 $(sectors_of "$DISK") crypt $cipher $key $offset $DISK 0 $# $*"
}

# all_of DEVICE: the data there.
all_of() {
	dd if="$1" bs=$BYTES count=1 iflag=direct status=none
}

# stored_as_encrypted KEY IV SECTOR LARGE OFFSET
stored_as_encrypted() {
	want "difference between the disk and OpenSSL's, $*" "" \
		"$("$here/aes_xts.py" encrypt "$@" <"$DATA" | cmp - <(all_of "$DISK") 2>&1)"
}

# as_openssl KEY_BYTES IV SECTOR LARGE MODE
as_openssl() {
	local arguments=("sector_size:$3") key offset irqmode=0 memory=$3 depth=${#ktap_cleanups[@]}

	[ "$4" = 0 ] || arguments+=(iv_large_sectors)
	key=$(key "$1")
	for offset in $(offsets "$3"); do
		irqmode=$(((irqmode + 1) % 3))
		null_disk xts 1 irqmode=$irqmode
		# shellcheck disable=SC2086 # the flags are words
		mapped xts "aes-xts-$2" "$key" "$offset" "${arguments[@]}" ${FLAGS[$5]} || return 0
		want "message of writing" "" "$("$here/aes_xts.py" write "$MAPPED" "$memory" $REQUESTS <"$DATA" 2>&1)"
		stored_as_encrypted "$key" "$2" "$3" "$4" "$offset"
		want "difference of what is read" "" \
			"$("$here/aes_xts.py" read "$MAPPED" "$memory" $REQUESTS $BYTES 2>&1 | cmp - "$DATA" 2>&1)"
		no_complaints
		mapped other "$OTHER-$2" "$key" "$offset" "${arguments[@]}" || return 0
		want "difference of what $OTHER reads" "" \
			"$(all_of "$MAPPED" | cmp - "$DATA" 2>&1)"
		undo "$depth"
	done
	no_complaints
}

# new_key_is_used MODE
new_key_is_used() {
	local name=$PREFIX-keys old new text description=$PREFIX-key

	null_disk xts 1 irqmode=1
	old=$(key 64) new=$(key 64 | rev)
	# shellcheck disable=SC2086 # the flags are words
	mapped keys aes-xts-plain64 "$old" 0 sector_size:512 ${FLAGS[$1]} || return 0
	text=$(printf '%b' "${new//??/\\x&}" | keyctl padd user "$description" @u) || broken "keyctl failed"
	defer keyctl unlink "$text" @u
	for text in "$new" "$old" ":64:user:$description"; do
		dmsetup suspend "$name" && dmsetup message "$name" 0 key wipe &&
			dmsetup message "$name" 0 key set "$text" && dmsetup resume "$name" ||
			broken "the key cannot be set"
		dd if="$DATA" of="$MAPPED" bs=$BYTES oflag=direct status=none || broken "cannot write"
		[ "$text" = "$old" ] || text=$new
		stored_as_encrypted "$text" plain64 512 0 0
		want "difference of what is read" "" \
			"$(all_of "$MAPPED" | cmp - "$DATA" 2>&1)"
	done
	no_complaints
}

needs cmp keyctl python3 rev null_blk modes
python3 -c 'import ctypes; ctypes.CDLL("libcrypto.so.3")' 2>/dev/null || skip_all "needs libcrypto.so.3"
DATA=$(mktemp) || broken "mktemp failed"
defer rm "$DATA"
head -c $BYTES /dev/urandom >"$DATA"

# Code that is not what the kernel prefers.
for OTHER in "capi:xts(ecb(aes-generic))" "capi:xts(ecb(aes-lib))" none; do
	! takes_cipher "$OTHER-plain64" 64 || break
done
[ "$OTHER" != none ] || broken "no other implementation of aes-xts found"

CLAIMS=()
for iv in plain plain64; do
	for sector in 512 1024 2048 4096; do
		for large in 0 1; do
			CLAIMS+=("as_openssl 64 $iv $sector $large both")
		done
	done
done
CLAIMS+=("as_openssl 32 plain64 512 0 default" "as_openssl 64 plain64 512 0 default")
CLAIMS+=("new_key_is_used default" "new_key_is_used both")
quick_claims "as_openssl 64 plain 512 0 both" "as_openssl 64 plain64 512 0 both" \
	"as_openssl 64 plain64 4096 1 both" "as_openssl 32 plain64 1024 0 default" "new_key_is_used both"
run_claims
