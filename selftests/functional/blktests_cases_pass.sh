#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="the cases of selftests/blktests pass"
#
# The runner is a copy of $BLKTESTS, a checkout of blktests, or else the functions below.
# Requires: root, dmsetup, fio, null_blk, cryptd, CONFIG_DEBUG_ATOMIC_SLEEP.
# Risks: on a kernel with the defects the preemption count is corrupted: use a guest.

. "$(dirname "$0")/common.sh"

_have_driver() { modprobe -q "$1" || SKIP_REASONS+=("driver $1"); }
_have_null_blk() { _have_driver null_blk; }
_have_fio() { _have_program fio; }
_have_program() { command -v "$1" >/dev/null || SKIP_REASONS+=("program $1"); }
_have_kernel_option() { zgrep -q "^CONFIG_$1=y" /proc/config.gz || SKIP_REASONS+=("option $1"); }
_register_test_cleanup() { defer "$1"; }
_exit_null_blk() { rmdir "$NULLB/nullb1"; }
_run_fio_verify_io() { verified_io blktests "${1#*=}" --rw=randwrite --iodepth=16; }

_configure_null_blk() {
	local disk=$NULLB/$1 attribute

	mkdir "$disk" || return
	for attribute in "${@:2}"; do
		echo "${attribute#*=}" >"$disk/${attribute%%=*}" || return
	done
}

# blktests_case TEST_NAME
blktests_case() {
	local output

	TMPDIR=$(mktemp -d) || broken "mktemp failed"
	defer rm -r "$TMPDIR"
	cd "$TMPDIR" || broken "no directory"
	cp -r "$HERE/../blktests/tests" .
	if [ -n "$BLKTESTS" ]; then
		cp -r "$BLKTESTS"/{check,common,tests/dm/rc} . ||
			broken "no checkout of blktests: $BLKTESTS"
		mv rc tests/dm
		output=$(./check "$1" 2>&1)
		want "exit status of check" 0 $?
		diag "$output"
		[[ $output != *"[not run]"* ]] || skip "by blktests"
		return
	fi

	mkdir common
	touch common/null_blk tests/dm/rc
	export TEST_NAME=$1 FULL=full
	SKIP_REASONS=()
	# shellcheck source=/dev/null
	. "tests/$1"
	requires
	[ ${#SKIP_REASONS[@]} -eq 0 ] || skip "needs ${SKIP_REASONS[*]}"
	# shellcheck disable=SC2065 # a function of the case
	test >output 2>&1
	want "exit status" 0 $?
	want "output" "$(<"tests/$1.out")" "$(<output)"
}

requires flags

CASES=("blktests_case dm/004" "blktests_case dm/005")
run
