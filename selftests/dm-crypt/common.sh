# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # what is set here is for the tests
#
# What the dm-crypt tests share: KTAP, cleanup, the kernel log, devices and mappings.
# All that is made here has a private name, and is removed at the end of its test.

export LC_ALL=C
unset KEY

HERE=$(dirname "${BASH_SOURCE[0]}")
NAME=dm-crypt-test-$$
NULLB=/sys/kernel/config/nullb
SECTORS=16384 # of a mapping: 8 MiB

# The modes a mapping can have, and the optional arguments each one takes.
MODES=(default no_read no_write both)
declare -A FLAGS=([default]="" [no_read]=no_read_workqueue [no_write]=no_write_workqueue
	[both]="no_read_workqueue no_write_workqueue")

# The null cipher, and one that is asynchronous wherever there is cryptd. By the names of their
# drivers: once made, the second one stays until the next boot, and the kernel prefers it.
NULL="capi:ecb-cipher_null-plain64"
ASYNC="capi:cryptd(ecb-cipher_null)-plain64"

if [ -r "$HERE/../kselftest/ktap_helpers.sh" ]; then
	# shellcheck source=/dev/null
	. "$HERE/../kselftest/ktap_helpers.sh"
else
	# Older trees have no such helpers: what is used of them.
	KSFT_PASS=0 KSFT_FAIL=1 KSFT_SKIP=4 KTAP_TESTNO=1 KTAP_CNT_FAIL=0 KTAP_CNT_SKIP=0

	ktap_print_header() { echo "TAP version 13"; }
	ktap_print_msg() { echo "# ${*//$'\n'/ }"; }
	ktap_set_plan() { echo "1..$1"; }
	ktap_skip_all() { echo "1..0 # SKIP $*"; }
	ktap_test_pass() { echo "ok $((KTAP_TESTNO++)) $1"; }
	ktap_test_skip() { echo "ok $((KTAP_TESTNO++)) $1 # SKIP" && ((++KTAP_CNT_SKIP)); }
	ktap_test_fail() { echo "not ok $((KTAP_TESTNO++)) $1" && ((++KTAP_CNT_FAIL)); }
	ktap_exit_fail_msg() { echo "Bail out! $*" && exit $KSFT_FAIL; }
	ktap_finished() { exit $((KTAP_CNT_FAIL ? KSFT_FAIL : KSFT_PASS)); }
fi
ktap_print_header

# skip REASON: what runs, a test or all of them, cannot run here.
skip() {
	[ "$BASH_SUBSHELL" -gt 0 ] || { ktap_skip_all "$*" && exit "$KSFT_SKIP"; }
	ktap_print_msg "skipped: $*"
	end "$KSFT_SKIP"
}

# fail WHAT: after this the test has nothing more to look at.
fail() { ktap_print_msg "$*" && end "$KSFT_FAIL"; }

# broken REASON: what the tests stand on does not work: an error, never a skip, and it ends all.
broken() {
	[ "$BASH_SUBSHELL" -gt 0 ] || ktap_exit_fail_msg "$*"
	ktap_print_msg "$*"
	exit 99
}

# want WHAT EXPECTED ACTUAL
want() {
	[ "$2" != "$3" ] || return 0
	ktap_print_msg "$1"
	ktap_print_msg "  expected: $2"
	ktap_print_msg "  actual: $3"
	failed=$KSFT_FAIL
}

# outcome COMMAND...: "success" or "failure", for a want.
outcome() { "$@" >/dev/null 2>&1 && echo success || echo failure; }

# defer COMMAND...: undo what was just made at the end of the test, last in first out.
defer() { deferred+=("$(printf '%q ' "$@")"); }

# undo_last: run what was deferred last. undo: all of it.
undo_last() {
	eval "${deferred[-1]}" || want "cleanup" success "failure: ${deferred[-1]}"
	unset 'deferred[-1]'
}

undo() { while [ ${#deferred[@]} -gt 0 ]; do undo_last; done; }

# run_tests "FUNCTION [ARGUMENT]..."...: each in a shell of its own.
run_tests() {
	local test

	ktap_set_plan $#
	for test in "$@"; do
		(run_test "$test")
		case $? in
		"$KSFT_PASS") ktap_test_pass "$test" ;;
		"$KSFT_FAIL") ktap_test_fail "$test" ;;
		"$KSFT_SKIP") ktap_test_skip "$test" ;;
		*) ktap_exit_fail_msg "cannot set up $test" ;;
		esac
	done
	[ "$KTAP_CNT_SKIP" -lt $# ] || exit "$KSFT_SKIP"
	ktap_finished
}

run_test() {
	deferred=() failed=$KSFT_PASS
	on_exit_undo
	mark_log
	begun=$mark
	# The words are a function and its arguments.
	[ "$(type -t "${1%% *}")" = function ] || broken "there is no test $1"
	$1
	end "$KSFT_PASS"
}

# end STATUS: of a test. What it has found wrong so far counts more.
end() {
	undo
	no_complaints
	exit $((failed ? failed : $1))
}

on_exit_undo() { trap undo EXIT && trap 'exit 130' INT TERM; }

# Remember this point of the kernel log.
mark_log() {
	mark="$NAME $RANDOM$RANDOM"
	{ echo "$mark" >/dev/kmsg; } 2>/dev/null || skip "needs printk.devkmsg=on or ratelimit"
}

# log_since MARK
log_since() { dmesg | awk -v mark="$1" 'seen; index($0, mark) { seen = 1 }'; }

# Since the test began nothing in the kernel complained of dm-crypt, or of sleeping in the wrong
# place. The lines below a complaint tell whose it is. Where the log has lost the mark, it may
# have lost a complaint too.
no_complaints() {
	want "lines of the kernel log with the mark" 1 "$(dmesg | grep -c "$begun")"
	want "complaints of the kernel" "" "$(log_since "$begun" | awk '
		{ sub(/^(\[[^]]*\])* */, "") }
		/^(watchdog: |\[ )?(BUG|WARNING|UBSAN|ODEBUG|Oops|Internal error)/ ||
			/^(INFO: task|kernel BUG|general protection|Unable to handle)/ {
			complaint = $0
			left = 60
		}
		left-- > 0 && (/dm_crypt[] ]|dmcrypt_write|kcryptd|[ _]crypt_[a-z_]+\+0x/ ||
			/^BUG: s.* (invalid context|atomic)|Invalid wait context/) &&
			!/^Modules linked in/ { print complaint; left = 0 }' | head -n 3)"
}

# needs PROGRAM...: and root, dm-crypt, its flags. Leaves a device without memory in $ZEROES.
needs() {
	local program

	[ "$EUID" -eq 0 ] || skip "needs root"
	for program in dmsetup dmesg awk "$@"; do
		command -v "$program" >/dev/null || skip "needs the program $program"
	done
	mark_log
	needs_target crypt
	needs_target zero
	on_exit_undo
	device zeroes "0 $SECTORS zero"
	ZEROES=$DEVICE
	needs_cipher cipher_null-ecb
	# From 1.22 on it knows them, or is wrong.
	takes cipher_null-ecb ${FLAGS[both]} ||
		! dmsetup targets | awk '$1 == "crypt" { split($2, v, "."); exit v[2] >= 22 }' ||
		skip "this dm-crypt knows no no_read_workqueue and no_write_workqueue"
}

needs_target() { dmsetup targets | grep -q "^$1 " || modprobe -q "dm-$1" || skip "needs dm-$1"; }

# needs_cipher CIPHER [OPTIONAL ARGUMENT]...: without flags, which must not matter.
needs_cipher() {
	takes "$@" || ! log_since "$mark" | grep -q "Error allocating crypto tfm" ||
		skip "needs the cipher $1"
}

# takes CIPHER [OPTIONAL ARGUMENT]...: whether a mapping comes up with them.
takes() {
	local optional=${*:2}

	dmsetup create "$NAME" 2>/dev/null --table \
		"0 8 crypt $1 $(key_of "$1") 0 $ZEROES 0${optional:+ $(($# - 1)) $optional}" &&
		{ dmsetup remove --retry "$NAME" || broken "cannot remove $NAME"; }
}

# device NAME TABLE: a mapping that must come up. Its path is left in $DEVICE.
device() {
	dmsetup create "$NAME-$1" --table "$2" || broken "dmsetup refuses: $2"
	defer dmsetup remove --retry "$NAME-$1"
	DEVICE=/dev/mapper/$NAME-$1
}

# null_disk [ATTRIBUTE=VALUE]...: 16 MiB of memory that complete in the interrupt of a timer, as
# other modes mean other contexts in other kernels. Its path is left in $DEVICE.
null_disk() {
	local attribute

	[ -d $NULLB ] || modprobe -q null_blk nr_devices=0
	[ -d $NULLB ] || mount -t configfs none /sys/kernel/config 2>/dev/null
	[ -d $NULLB ] || skip "needs CONFIG_BLK_DEV_NULL_BLK and CONFIG_CONFIGFS_FS"
	mkdir "$NULLB/$NAME" || broken "cannot make a null_blk device"
	defer rmdir "$NULLB/$NAME"
	for attribute in memory_backed=1 size=16 blocksize=512 irqmode=2 "$@" power=1; do
		echo "${attribute#*=}" >"$NULLB/$NAME/${attribute%%=*}" ||
			broken "null_blk refuses $attribute"
	done
	# Some kernels call it by the name of its directory, others by a number.
	DEVICE=/dev/$NAME
	[ -b "$DEVICE" ] || DEVICE=/dev/nullb$(cat "$NULLB/$NAME/index")
	[ -b "$DEVICE" ] || broken "$DEVICE did not appear"
}

# tags_over DEVICE BYTES: dm-integrity with room for tags; its path is left in $DEVICE.
tags_over() {
	local arguments="$1 0 $2 D 1 block_size:4096" sectors

	needs_target integrity
	# The size is known once the superblock has been written.
	device tags "0 8 integrity $arguments"
	sectors=$(dmsetup status "$NAME-tags" | cut -d ' ' -f 5)
	undo_last
	device tags "0 $sectors integrity $arguments"
}

# key_of CIPHER: every byte different from all others; "-" for the null cipher.
key_of() {
	case $1 in
	*null*) echo - ;;
	*xts* | *elephant) printf '%02x' {1..64} ;;
	*) printf '%02x' {1..32} ;;
	esac
}

# crypt NAME CIPHER DEVICE [OPTIONAL ARGUMENT]...: a mapping of the device's beginning, with $KEY
# if that is set. Its path is left in $MAPPED. What it takes has been asked for before.
crypt() {
	local name=$NAME-$1 table

	table="0 $SECTORS crypt $2 ${KEY:-$(key_of "$2")} 0 $3 0"
	shift 3
	table+=${*:+ $# $*}
	dmsetup create "$name" --table "$table" || fail "dmsetup refuses: $table"
	defer dmsetup remove --retry "$name"
	MAPPED=/dev/mapper/$name
}
