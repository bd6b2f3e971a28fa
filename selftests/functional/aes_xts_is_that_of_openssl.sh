#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="dm-crypt encrypts aes-xts as OpenSSL does, for all sector sizes, IVs and key lengths"
#
# Another implementation of the kernel reads the same data. Requests lie across pages, and IVs go
# beyond 32 bits. After "key set" the data is encrypted with the new key. A table that names a driver of the crypto API
# gets this one: a mapping holds a reference to its driver.
# Requires: root, dmsetup, null_blk, cryptd, libcrypto of OpenSSL 3, keyctl.
# Risks: none.

. "$(dirname "$0")/common.sh"

AES_XTS=$(dirname "$0")/aes_xts.py
BYTES=$((92 * 1024)) REQUESTS=$((28 * 1024)) # no multiple of each other

# offsets SECTOR: print 0, and offsets whose IV numbers reach 32, 35 and 64 bits inside a page of the
# data, where sectors are smaller than half a page; "plain" goes on with 0 after 32. 35 bits are 32
# in sectors of the largest size with iv_large_sectors.
offsets() {
	local step=$(($1 / 512)) before

	before=$(((18 + step - 1) / step * step))
	printf '0 %d %d %u\n' $(((1 << 32) - before)) $(((1 << 35) - before)) $((-before))
}

# mapped NAME CIPHER KEY IV_OFFSET [ARGUMENT]...
mapped() {
	local MAPPING=$1 cipher=$2 key=$3 offset=$4 below=$DEVICE

	shift 4
	device "$MAPPING" "0 $(sectors_of "$below") crypt $cipher $key $offset $below 0 $# $*"
	MAPPED=$DEVICE DEVICE=$below
}

# all_of DEVICE: print its data.
all_of() { dd if="$1" bs=$BYTES count=1 iflag=direct status=none; }

# stored_as_encrypted KEY IV SECTOR LARGE OFFSET
stored_as_encrypted() {
	want "difference between the disk and OpenSSL's data, $*" "" \
		"$("$AES_XTS" encrypt "$@" <"$DATA" | cmp - <(all_of "$DEVICE") 2>&1)"
}

# as_openssl KEY_BYTES IV SECTOR LARGE MODE
as_openssl() {
	local arguments=("sector_size:$3") key offset irqmode=0

	[ "$4" = 0 ] || arguments+=(iv_large_sectors)
	key=$(key_of xts) key=${key:0:$1 * 2}
	for offset in $(offsets "$3"); do
		irqmode=$(((irqmode + 1) % 3))
		null_disk size=1 irqmode=$irqmode
		# shellcheck disable=SC2086 # the flags are words
		mapped xts "aes-xts-$2" "$key" "$offset" "${arguments[@]}" ${FLAGS[$5]}
		want "message of writing" "" "$("$AES_XTS" write "$MAPPED" "$3" $REQUESTS <"$DATA" 2>&1)"
		stored_as_encrypted "$key" "$2" "$3" "$4" "$offset"
		want "difference of the data read" "" \
			"$("$AES_XTS" read "$MAPPED" "$3" $REQUESTS $BYTES 2>&1 | cmp - "$DATA" 2>&1)"
		mapped other "$OTHER-$2" "$key" "$offset" "${arguments[@]}"
		want "difference of the data that $OTHER reads" "" \
			"$(all_of "$MAPPED" | cmp - "$DATA" 2>&1)"
		undo
	done
}

# new_key_is_used MODE
new_key_is_used() {
	local name old new key id

	null_disk size=1 irqmode=1
	crypt keys aes-xts-plain64 ${FLAGS[$1]}
	name=${MAPPED##*/} old=$(key_of xts) new=$(key_of xts | rev)
	id=$(printf '%b' "${new//??/\\x&}" | keyctl padd user "$name" @u) || broken "keyctl failed"
	defer keyctl unlink "$id" @u
	for key in "$new" "$old" ":64:user:$name"; do
		dmsetup suspend "$name" && dmsetup message "$name" 0 key wipe &&
			dmsetup message "$name" 0 key set "$key" && dmsetup resume "$name" ||
			broken "the key cannot be set"
		dd if="$DATA" of="$MAPPED" bs=$BYTES oflag=direct status=none || broken "cannot write"
		[ "$key" = "$old" ] || key=$new
		stored_as_encrypted "$key" plain64 512 0 0
		want "difference of the data read" "" "$(all_of "$MAPPED" | cmp - "$DATA" 2>&1)"
	done
}

# references DRIVER: print how many /proc/crypto shows.
references() {
	awk -F ' *: ' -v wanted="$1" '$1 == "driver" { found = $2 == wanted } found && $1 == "refcnt" { print $2 }' \
		/proc/crypto | tail -n 1
}

# mapping_holds DRIVER IV
mapping_holds() {
	local held

	null_disk size=1
	crypt named "capi:$1-$2"
	held=$(references "$1")
	undo_last
	want "references that the mapping held" 1 "$((${held:-0} - $(references "$1")))"
}

requires cmp keyctl python3 rev modes async # loads the best drivers
python3 -c 'import ctypes; ctypes.CDLL("libcrypto.so.3")' 2>/dev/null || skip "needs libcrypto.so.3"
random_data $BYTES

# Code that the kernel does not prefer.
for OTHER in "capi:xts(ecb(aes-generic))" "capi:xts(ecb(aes-lib))" none; do
	! takes "$OTHER-plain64" || break
done
[ "$OTHER" != none ] || broken "no other implementation of aes-xts found"

for iv in plain plain64; do
	for sector in 512 1024 2048 4096; do
		for large in 0 1; do
			CASES+=("as_openssl 64 $iv $sector $large both")
		done
	done
done
named=()
for driver in "$(sync_driver "xts(aes)")" "xts(ecb(aes-lib))" "xts(ecb(aes-generic))"; do
	! takes "capi:$driver-plain64" || named+=("mapping_holds $driver plain64" "mapping_holds $driver plain")
done
driver=${CIPHERS[async-xts]#capi:}
named+=("mapping_holds ${driver%-plain64} plain64") # last: the kernel prefers cryptd from now on
CASES+=("as_openssl 32 plain64 512 0 default" "as_openssl 64 plain64 512 0 default"
	"new_key_is_used default" "new_key_is_used both" "${named[@]}")
quick_cases "as_openssl 64 plain 512 0 both" "as_openssl 64 plain64 512 0 both" \
	"as_openssl 64 plain64 4096 1 both" "as_openssl 32 plain64 1024 0 default" "new_key_is_used both" \
	"${named[@]}"
run
