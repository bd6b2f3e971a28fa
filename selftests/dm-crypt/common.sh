# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # the tests use what is set here
#
# Functions for the dm-crypt tests: KTAP, cleanup, the kernel log, devices and mappings.
# Each device has a name of its own and is removed at the end of its test case.

export LC_ALL=C
unset KEY

HERE=$(dirname "${BASH_SOURCE[0]}")
NAME=dm-crypt-test-$$
NULLB=/sys/kernel/config/nullb

# The modes of a mapping, and the optional arguments of each.
MODES=(default no_read no_write both)
declare -A FLAGS=([default]="" [no_read]=no_read_workqueue [no_write]=no_write_workqueue
	[both]="no_read_workqueue no_write_workqueue")

# Short names: the null cipher, and the same through cryptd, which always completes later. The
# table names their drivers: cryptd(...) stays until the next boot, and the kernel prefers it.
declare -A CIPHERS=([null]="capi:ecb-cipher_null-plain64"
	[async-null]="capi:cryptd(ecb-cipher_null)-plain64")

# The first line of a kernel warning. It counts when it, or one of the 60 lines below, is RELEVANT.
WARNINGS='^(watchdog: |[[] )?(BUG|WARNING|KASAN|UBSAN|ODEBUG|Oops|INFO: (task|rcu)|kernel BUG)'
WARNINGS+='|^(Internal error|Unable to handle|general protection|refcount_t: |list_(add|del) corr)'
WARNINGS+='|^rcu: .* stall|(recursive|circular) locking|inconsistent lock state|suspicious RCU'
RELEVANT='dm_crypt[] ]|dmcrypt_write|kcryptd|[ _]crypt_[a-z_]+[+]0x'
RELEVANT+='|^BUG: s.* (invalid context|atomic)|Invalid wait context'

if [ -r "$HERE/../kselftest/ktap_helpers.sh" ]; then
	# shellcheck source=/dev/null
	. "$HERE/../kselftest/ktap_helpers.sh"
else
	# Older trees lack these helpers.
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
ktap_print_msg "$DESCRIPTION"

# skip REASON: this test case, or outside of test cases all of them, cannot run here.
skip() {
	[ "$BASH_SUBSHELL" -gt 0 ] || { ktap_skip_all "$*" && exit "$KSFT_SKIP"; }
	ktap_print_msg "skipped: $*"
	end "$KSFT_SKIP"
}

# fail REASON: end this test case.
fail() { ktap_print_msg "$*" && end "$KSFT_FAIL"; }

# broken REASON: the setup does not work: end all test cases with an error.
broken() {
	[ "$BASH_SUBSHELL" -gt 0 ] || ktap_exit_fail_msg "$*"
	ktap_print_msg "$*"
	exit 99
}

# want WHAT EXPECTED ACTUAL: the test case fails when they differ, but goes on.
want() {
	[ "$2" != "$3" ] || return 0
	ktap_print_msg "$1"
	ktap_print_msg "  expected: $2"
	ktap_print_msg "  actual: $3"
	failed=$KSFT_FAIL
	return "$KSFT_FAIL"
}

# outcome COMMAND...: print "success" or "failure".
outcome() { "$@" >/dev/null 2>&1 && echo success || echo failure; }

# defer COMMAND...: run it at the end of the test case, last in first out.
defer() { deferred+=("$(printf '%q ' "$@")"); }

# undo_last: run the last deferred command. undo: run all of them.
undo_last() {
	eval "${deferred[-1]}" || want "cleanup" success "failure: ${deferred[-1]}"
	unset 'deferred[-1]'
}

undo() { while [ ${#deferred[@]} -gt 0 ]; do undo_last; done; }

# run_cases "FUNCTION [ARGUMENT]..."...: each test case in a shell of its own.
run_cases() {
	local name

	ktap_set_plan $#
	for name in "$@"; do
		(run_case "$name")
		case $? in
		"$KSFT_PASS") ktap_test_pass "$name" ;;
		"$KSFT_FAIL") ktap_test_fail "$name" ;;
		"$KSFT_SKIP") ktap_test_skip "$name" ;;
		*) ktap_exit_fail_msg "cannot set up $name" ;;
		esac
	done
	[ "$KTAP_CNT_SKIP" -lt $# ] || exit "$KSFT_SKIP"
	ktap_finished
}

run_case() {
	deferred=() failed=$KSFT_PASS
	on_exit_undo
	mark_log
	start_mark=$mark
	[ "$(type -t "${1%% *}")" = function ] || broken "there is no test case $1"
	$1
	end "$KSFT_PASS"
}

# end STATUS: of a test case, unless it has failed before.
end() {
	undo
	no_warnings
	exit $((failed ? failed : $1))
}

on_exit_undo() { trap undo EXIT && trap 'exit 130' INT TERM; }

# Mark this point of the kernel log.
mark_log() {
	mark="$NAME $RANDOM$RANDOM"
	{ echo "$mark" >/dev/kmsg; } 2>/dev/null || skip "needs printk.devkmsg=on or ratelimit"
}

# log_since MARK
log_since() { dmesg | awk -v mark="$1" 'seen; index($0, mark) { seen = 1 }'; }

# Want no kernel warning since the test case began. A log without the mark has lost lines.
no_warnings() {
	want "lines of the kernel log with the mark" 1 "$(dmesg | grep -c "$start_mark")"
	want "kernel warnings" "" "$(log_since "$start_mark" |
		awk -v warnings="$WARNINGS" -v relevant="$RELEVANT" '
			{ sub(/^(\[[^]]*\])* */, "") }
			$0 ~ warnings { warning = $0; rest = 60 }
			rest-- > 0 && $0 ~ relevant && !/^Modules linked in/ {
				print warning
				rest = 0
			}' |
		head -n 3)"
}

# needs PROGRAM...: skip all test cases without root, dm-crypt or a program. Sets $DEVICE and
# $ZEROES to a device without memory.
needs() {
	local program

	[ "$EUID" -eq 0 ] || skip "needs root"
	for program in dmsetup blockdev dmesg awk "$@"; do
		command -v "$program" >/dev/null || skip "needs the program $program"
	done
	mark_log
	needs_target crypt
	needs_target zero
	on_exit_undo
	device zeroes "0 16384 zero"
	ZEROES=$DEVICE
	needs_cipher null
}

needs_target() { dmsetup targets | grep -q "^$1 " || modprobe -q "dm-$1" || skip "needs dm-$1"; }

# needs_flags: a dm-crypt of version 1.22 or later knows them, or is wrong.
needs_flags() {
	takes null ${FLAGS[both]} ||
		! dmsetup targets | awk '$1 == "crypt" { split($2, v, "."); exit v[2] >= 22 }' ||
		skip "this dm-crypt knows no no_read_workqueue and no_write_workqueue"
}

# needs_cipher CIPHER [OPTIONAL ARGUMENT]...
needs_cipher() {
	takes "$@" || ! log_since "$mark" | grep -q "Error allocating crypto tfm" ||
		skip "needs the cipher $1"
}

# takes CIPHER [OPTIONAL ARGUMENT]...: can a mapping be created?
takes() {
	dmsetup create "$NAME" --table "$(DEVICE=$ZEROES crypt_table "$@")" 2>/dev/null &&
		{ dmsetup remove --retry "$NAME" || broken "cannot remove $NAME"; }
}

# device NAME TABLE: create a mapping of any target. Sets $DEVICE.
device() {
	dmsetup create "$NAME-$1" --table "$2" || broken "dmsetup refuses: $2"
	defer dmsetup remove --retry "$NAME-$1"
	DEVICE=/dev/mapper/$NAME-$1
}

# null_disk [ATTRIBUTE=VALUE]...: create a disk of 16 MiB of memory. It completes in the interrupt
# of a timer: other modes mean other contexts in other kernels. Sets $DEVICE.
null_disk() {
	local disk=$NAME-$((++disks)) attribute

	[ -d $NULLB ] || modprobe -q null_blk nr_devices=0
	[ -d $NULLB ] || mount -t configfs none /sys/kernel/config 2>/dev/null
	[ -d $NULLB ] || skip "needs CONFIG_BLK_DEV_NULL_BLK and CONFIG_CONFIGFS_FS"
	mkdir "$NULLB/$disk" || broken "cannot make a null_blk device"
	defer rmdir "$NULLB/$disk"
	# A queue for polling, which newer kernels add, changes the context too.
	[ ! -e "$NULLB/$disk/poll_queues" ] || set -- poll_queues=0 "$@"
	set -- memory_backed=1 size=16 blocksize=512 submit_queues=1 irqmode=2 "$@" power=1
	for attribute; do
		echo "${attribute#*=}" >"$NULLB/$disk/${attribute%%=*}" ||
			broken "null_blk refuses $attribute"
	done
	# Some kernels name it after its directory, others by a number.
	DEVICE=/dev/$disk
	[ -b "$DEVICE" ] || DEVICE=/dev/nullb$(cat "$NULLB/$disk/index")
	[ -b "$DEVICE" ] || broken "$DEVICE did not appear"
}

# tags_over BYTES [SECTOR_SIZE]: create a dm-integrity device for tags over $DEVICE. Sets $DEVICE.
tags_over() {
	local arguments="$DEVICE 0 $1 D 1 block_size:${2:-4096}" sectors

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

# crypt_table CIPHER [OPTIONAL ARGUMENT]...: of all of $DEVICE, with $KEY if that is set.
crypt_table() {
	local cipher=${CIPHERS[$1]:-$1} sectors

	sectors=$(blockdev --getsz "$DEVICE")
	shift
	echo "0 $sectors crypt $cipher ${KEY:-$(key_of "$cipher")} 0 $DEVICE 0${*:+ $# $*}"
}

# crypt NAME CIPHER [OPTIONAL ARGUMENT]...: create that mapping. Sets $MAPPED.
crypt() {
	local name=$NAME-$1 table

	shift
	table=$(crypt_table "$@")
	if ! dmsetup create "$name" --table "$table"; then
		# Without the flags, which must not matter.
		needs_cipher "${@/no_*_workqueue/same_cpu_crypt}"
		fail "dmsetup refuses: $table"
	fi
	defer dmsetup remove --retry "$name"
	MAPPED=/dev/mapper/$name
}
