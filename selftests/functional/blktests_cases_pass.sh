#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="the cases of selftests/blktests pass"
#
# $BLKTESTS, a checkout of blktests, runs them. Without it, the functions below replace its helpers.
# Requires: root, dmsetup, fio, null_blk, cryptd, CONFIG_DEBUG_ATOMIC_SLEEP.
# Risks: on a kernel with the defects the preemption count is corrupted: use a guest.

. "$(dirname "$0")/common.sh"

_have_driver() { modprobe -q "$1" || SKIP_REASONS+=("driver $1"); }
_have_program() { command -v "$1" >/dev/null || SKIP_REASONS+=("program $1"); }
_have_fio() { _have_program fio; }
_have_kernel_option() { zgrep -q "^CONFIG_$1=y" /proc/config.gz || SKIP_REASONS+=("option $1"); }
_have_null_blk() { :; } # null_disk skips
_configure_null_blk() { null_disk "${@:2}" && ln -s "$DEVICE" "/dev/$1"; }
_exit_null_blk() { rm -f /dev/nullb1; }
_register_test_cleanup() { defer "$1"; }
_run_fio_verify_io() { verified_io blktests "${1#*=}" --rw=randwrite --iodepth=16; }

blktests_case() {
	TMPDIR=$(mktemp -d) || broken "mktemp failed"
	defer rm -r "$TMPDIR"
	cp -r "$HERE/../blktests/tests" "$TMPDIR"
	cd "$TMPDIR" || broken "no directory"
	if [ -n "$BLKTESTS" ]; then
		cp -r "$BLKTESTS"/{check,common,tests/dm/rc} . || broken "no checkout: $BLKTESTS"
		mv rc tests/dm
		want "check $1" success "$(outcome eval "./check $1 >output 2>&1")"
		diag "$(<output)"
		! grep -q '[[]not run]' output || skip "by blktests"
		return
	fi

	mkdir common && touch common/null_blk tests/dm/rc
	export TEST_NAME=$1 FULL=full
	# shellcheck source=/dev/null
	. "tests/$1"
	requires
	[ ${#SKIP_REASONS[@]} -eq 0 ] || skip "needs ${SKIP_REASONS[*]}"
	{ test; } >output 2>&1
	want "output" "$(<"tests/$1.out")" "$(<output)"
}

requires flags
CASES=("blktests_case dm/004" "blktests_case dm/005")
run
