#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="random tables and messages do no harm, and the status of a table is a table"
#
# DM_CRYPT_MINUTES (default 1; the short form takes 20 s) and DM_CRYPT_SEED (default 5).
# Requires: root, dmsetup, null_blk, python3; CONFIG_KASAN finds more.
# Risks: a kernel without the fixes crashes. cryptd(xts(aes)) is the kernel's first choice afterwards.

. "$(dirname "$0")/common.sh"

TIME=$(full_or_quick 60 20)
[ -z "$DM_CRYPT_MINUTES" ] || TIME=$((DM_CRYPT_MINUTES * 60))

# Kernels without the fixes crash with these, and take two types, which loses memory. Others refuse them in any case.
found_tables_are_refused() {
	want "a number without a type" failure "$(outcome takes null integrity:28)"
	want "two types" failure "$(outcome takes null integrity:28:none integrity:28:none)"
	want "the size of a MAC's key for gcm(aes)" failure \
		"$(outcome takes "capi:gcm(aes)-random" integrity:28:aead integrity_key_size:16)"
	want "an AEAD with lmk" failure "$(outcome takes "capi:gcm(aes)-lmk" integrity:16:aead)"
	want "a key shorter than what tcw takes of it" failure "$(KEY=$(printf '%032d' 0) \
		outcome takes "capi:authenc(hmac(sha256),cbc(aes))-tcw" integrity:32:aead)"
}

ivs_of_32_bytes_are_refused_for_tcw() {
	needs_cipher capi:xchacha20-plain64
	want "a table with such an IV" failure "$(KEY=$(printf '%0160d' 0) outcome takes capi:xchacha20-tcw)"
}

# KASAN sees whether the kernel reads 16 bytes of a seed that has 8.
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
	"data_stay ${DM_CRYPT_SEED:-5}")
run
