#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="AES-XTS in one call for many data units is the same as in one call for each"
#
# The test runs the KUnit tests that come with the queue.
# Requires: root, debugfs, a kernel with CONFIG_CRYPTO_LIB_AES_XTS_KUNIT_TEST=m.
# Risks: none.

. "$(dirname "$0")/common.sh"

kunit_passes() {
	local results=$DEBUGFS/kunit/aes_xts/results

	modprobe kunit enable=1 autorun=1 && modprobe aes_xts_kunit || broken "the tests cannot be loaded"
	defer modprobe -r aes_xts_kunit kunit
	sed 's/^/# /' "$results"
	want "totals" success "$(outcome grep '^# Totals: pass:[1-9].* fail:0 skip:0' "$results")"
	want "last line" "ok 1 aes_xts" "$(tail -n 1 "$results")"
}

requires debugfs
modprobe -q -n aes_xts_kunit || skip "the kernel has no tests of AES-XTS"

CASES=("kunit_passes")
run
