#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="random tables and messages do no harm, and the status of a table is a table"
#
# DM_CRYPT_MINUTES (default 1; the short form takes 20 s) and DM_CRYPT_SEED (default 5).
# Requires: root, dmsetup, null_blk, python3; CONFIG_KASAN finds more.
# Risks: a kernel without the fixes crashes. cryptd(xts(aes)) is the kernel's first choice afterwards.

. "$(dirname "$0")/common.sh"

# refused MESSAGE CIPHER [OPTIONAL ARGUMENT]...: a kernel without the fixes crashes, leaks memory or takes the table.
refused() {
	mark_log
	want "${*:2}" failure "$(outcome takes "${@:2}")"
	want "its error" "$1" "$(log_since "$mark" | grep -o "$1" | head -n 1)"
}

found_tables_are_refused() {
	local key_size="Invalid AEAD cipher spec"

	needs_cipher "capi:gcm(aes)-random" integrity:28:aead
	needs_cipher "capi:authenc(hmac(sha256),cbc(aes))-random" integrity:48:aead
	takes null integrity_key_size:16 || key_size="Invalid feature arguments" # an old kernel
	refused "Invalid integrity arguments" null integrity:28
	refused "Invalid integrity arguments" null integrity:28:none integrity:28:none
	refused "$key_size" "capi:gcm(aes)-random" integrity:28:aead integrity_key_size:16
	refused "AEAD transforms not supported for LMK" "capi:gcm(aes)-lmk" integrity:16:aead
	KEY=$(printf '%032d' 0) refused "Wrong key size for TCW" "capi:authenc(hmac(sha256),cbc(aes))-tcw" integrity:32:aead
}

ivs_of_32_bytes_are_refused_for_tcw() {
	needs_cipher capi:xchacha20-plain64
	KEY=$(printf '%0160d' 0) refused "Unsupported IV size for TCW" capi:xchacha20-tcw
}

# KASAN sees whether the kernel reads 16 bytes of a seed that has 9.
a_short_seed_is_not_read_beyond_the_key() {
	needs_cipher des-cbc-plain
	want "DES with lmk and a key of 25 bytes" success "$(KEY=$(printf '%050d' 0) outcome takes des:2-cbc-lmk)"
}

# data_stay SEED
data_stay() {
	null_disk
	crypt fuzzed aes-xts-plain64 ${FLAGS[both]}
	each_seed "$1" "$(dirname "$0")/fuzz.py" "${MAPPED##*/}" "$(dmsetup table --showkeys "${MAPPED##*/}")"
}

requires python3 modes

CASES=(found_tables_are_refused ivs_of_32_bytes_are_refused_for_tcw a_short_seed_is_not_read_beyond_the_key
	"data_stay $SEED")
run
