#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: many data units of AES-XTS in one call are what they are one by one: the KUnit tests
# that come with the queue pass.
# Needs: root, debugfs, a kernel with CONFIG_CRYPTO_LIB_AES_XTS_KUNIT_TEST=m.
# Endangers: nothing.

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

kunit_passes() {
	local results=$DEBUGFS/kunit/aes_xts/results

	mark_log
	modprobe kunit enable=1 autorun=1 && modprobe aes_xts_kunit || broken "the tests cannot be loaded"
	defer modprobe -r aes_xts_kunit kunit
	sed 's/^/# /' "$results"
	want "totals" success "$(outcome grep '^# Totals: pass:[1-9].* fail:0 skip:0' "$results")"
	want "last line" "ok 1 aes_xts" "$(tail -n 1 "$results")"
	no_complaints
}

needs debugfs
modprobe -q -n aes_xts_kunit || skip_all "the kernel has no tests of AES-XTS"

CLAIMS=("kunit_passes")
run_claims
