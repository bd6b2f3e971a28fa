#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="each kind of mapping without tags stores the data that it always stored"
#
# So another kernel, or a machine with another processor, reads it. The digests are those of Linux 5.10.262 with the
# dm-crypt.c of v5.8-rc2, on x86-64.
# Requires: root, dmsetup, null_blk, sha256sum.
# Risks: none.
# CPUs: 1

. "$(dirname "$0")/common.sh"

BYTES=65536

# bytes COUNT: print that many as hexadecimal digits, no two groups of 8 alike.
bytes() { awk -v n="$1" 'BEGIN { while (i++ < n) printf "%02x", (i * 167 + int(i / 256) * 91) % 256 }'; }

# stored_as_ever CIPHER KEY_BYTES [ARGUMENT]...
stored_as_ever() {
	local DEVICE table cipher=$1 key=$2 digest=${DIGESTS[$*]} bits=32

	shift 2
	[[ $* != *iv_large_sectors* ]] || bits=35 # its numbers are those of sectors of 4096 bytes
	null_disk size=1
	# shellcheck disable=SC2086 # the flags are words
	set -- ${FLAGS[both]} "$@"
	needs_cipher "$cipher"
	# The numbers of some sectors have more than 32 bits.
	table="0 $((BYTES / 512)) crypt $cipher $(bytes "$key") $(((1 << bits) - 40)) $DEVICE 0 $# $*"
	dmsetup create "$NAME-stored" --table "$table" || fail "dmsetup refuses: $table"
	defer dmsetup remove --retry "$NAME-stored"
	seq 100000 999999 | head -c $BYTES |
		dd of="/dev/mapper/$NAME-stored" bs=28K iflag=fullblock oflag=direct status=none || fail "cannot write"
	want "digest of the disk" "$digest" \
		"$(dd if="$DEVICE" bs=$BYTES count=1 iflag=direct status=none | sha256sum | head -c 16)"
	want "difference of the data read" "" "$(cmp -n $BYTES <(seq 100000 999999) "/dev/mapper/$NAME-stored" 2>&1)"
}

requires cmp sha256sum modes

# The digest, the cipher, the bytes of its key, optional arguments.
declare -A DIGESTS
while read -r digest words; do
	DIGESTS[$words]=$digest
	CASES+=("stored_as_ever $words")
done <<'END'
b963a845c3bdea66 aes-xts-plain 64
535d9ec9afc34dd9 aes-xts-plain64 32
8759530e7b817fe0 aes-xts-plain64 64
8e6c3f93b700c0a9 aes-xts-plain64 64 sector_size:4096
bd1da982cd533040 aes-xts-plain64 64 sector_size:4096 iv_large_sectors
4c294ed3583a1285 aes-xts-plain64be 64
34839abbeb24a345 aes-xts-essiv:sha256 64
4e9ce92f2a054a31 aes-xts-benbi 64
f8dd9f656a0c744d aes-lrw-benbi 48
8821ceda4bc2b3f8 aes-cbc-plain 32
b14daa73393ad911 aes-cbc-plain64 32
e24b81635da713b1 aes-cbc-essiv:sha256 32
b824d182aeb5f964 aes-cbc-eboiv 16
ff52e5ac4f277753 aes-cbc-eboiv 32
0443950270d7d307 aes-cbc-elephant 32
3d299c4d22a68d78 aes-cbc-elephant 64
db90db34be191f96 aes-cbc-elephant 64 sector_size:4096 iv_large_sectors
d7f6e7a0421aea33 aes:64-cbc-lmk 1024
79b3ddf526ca72f0 aes:64-cbc-lmk 1040
d3b042cd49516f60 des:64-cbc-lmk 520
78b098f824018450 des:64-cbc-lmk 528
cdd53c0efdc2b758 aes-cbc-tcw 64
b9c79cbd5676c798 des3_ede-cbc-tcw 48
084b28e84608ed18 twofish-cbc-null 32
b0fb52cb11b5acf4 serpent-xts-plain64 64
88a1c7bea67ddfb7 capi:ctr(aes)-plain64 32
d126c74cef6c33fa capi:xchacha20-plain64 32
END
quick_cases "stored_as_ever aes-xts-plain64 64 sector_size:4096 iv_large_sectors" \
	"stored_as_ever aes-cbc-essiv:sha256 32" "stored_as_ever aes-lrw-benbi 48" \
	"stored_as_ever aes-cbc-eboiv 32" "stored_as_ever aes:64-cbc-lmk 1040" \
	"stored_as_ever des3_ede-cbc-tcw 48" "stored_as_ever des:64-cbc-lmk 528"
run
