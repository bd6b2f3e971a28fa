# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # the tests use what is set here
#
# Functions for tests that run in a guest, on top of those of the kernel tree's suite. A test fills
# the array CASES with functions and their arguments, and calls `run`.
#
# DM_CRYPT_QUICK shortens all tests. With KTAP_FAIL_FAST a test ends with the first case that fails.
# With DM_CRYPT_ANY_DRIVER drivers without the flags are tested too.

. "${BASH_SOURCE[0]%/*}/../dm-crypt/common.sh"
. "${BASH_SOURCE[0]%/*}/io.sh"

DEBUGFS=/sys/kernel/debug
# In a guest every kernel warning counts.
WARNINGS+='|I/O error|page allocation failure' RELEVANT=.

ktap_test_fail() {
	echo "not ok $((KTAP_TESTNO++)) $1"
	((++KTAP_CNT_FAIL))
	[ -z "$KTAP_FAIL_FAST" ] || ktap_exit_fail_msg "stopped at the first failure"
}

# diag TEXT...: print lines that are no KTAP.
diag() { echo "# ${*//$'\n'/$'\n'# }"; }

# hang REASON: this case has failed, and its devices cannot be removed.
# Prints the requests, and the tasks that wait or run, twice: a slow machine goes on in 10 s.
hang() {
	local pause task

	diag "$(dmsetup ls -o blkdevname)"
	for pause in 0 10; do
		sleep $pause
		diag "reads and writes in flight:" "$(grep -v ' 0 *0$' /sys/block/*/inflight)"
		for task in /proc/[0-9]*; do
			! grep -q "^State:.[DR]" "$task/status" || diag "$(cat "$task/comm" "$task/stack")"
		done 2>/dev/null
	done
	deferred=() && fail "$*"
}

# full_or_quick FULL QUICK: print one of them.
full_or_quick() { [ -n "$DM_CRYPT_QUICK" ] && echo "$2" || echo "$1"; }

# quick_cases CASE...: these replace all others where time is short.
quick_cases() { [ -z "$DM_CRYPT_QUICK" ] || CASES=("$@"); }

# What tests of random steps use: seconds, and a seed. The default seed of soak chooses all that is inline, with real
# ciphers, from the first second on.
TIME=$(full_or_quick 60 20) SEED=${DM_CRYPT_SEED:-5}
[ -z "$DM_CRYPT_MINUTES" ] || TIME=$((DM_CRYPT_MINUTES * 60))

# run: the test cases, those of asynchronous ciphers last: the kernel prefers what they leave in it.
run() {
	local name first=() last=()

	for name in "${CASES[@]}"; do
		[[ $name = *async-* ]] && last+=("$name") || first+=("$name")
	done
	run_cases "${first[@]}" "${last[@]}"
}

# requires WORD...: skip all test cases without the flags, asynchronous ciphers, debugfs, a target
# of the device mapper, or a program.
requires() {
	local word

	needs
	for word in "$@"; do
		case $word in
		flags) needs_flags ;;
		modes) needs_modes ;;
		async) needs_async ;;
		target:*) needs_target "${word#target:}" ;;
		debugfs)
			mountpoint -q $DEBUGFS || mount -t debugfs none $DEBUGFS 2>/dev/null
			mountpoint -q $DEBUGFS || skip "needs debugfs"
			;;
		*) command -v "$word" >/dev/null || skip "needs the program $word" ;;
		esac
	done
}

# needs_modes: all modes, or with DM_CRYPT_ANY_DRIVER the modes without the flags that dm-crypt lacks.
needs_modes() {
	local mode

	if [ -z "$DM_CRYPT_ANY_DRIVER" ]; then
		needs_flags
		return
	fi
	takes null || broken "dm-crypt refuses the null cipher"
	for mode in no_read no_write; do
		takes null ${FLAGS[$mode]} || FLAGS[$mode]=""
	done
	FLAGS[both]=$(xargs <<<"${FLAGS[no_read]} ${FLAGS[no_write]}")
	takes null ${FLAGS[both]} || broken "dm-crypt takes either flag, but not both"
}

# needs_async: add ciphers that always complete asynchronously: cryptd over those of the kernel.
needs_async() {
	local xts cbc gcm

	modprobe -q cryptd
	[ -d /sys/module/cryptd ] || skip "needs CONFIG_CRYPTO_CRYPTD"
	# Make the kernel load its best ciphers, and synchronous ones where those are not. With this IV
	# the crypto API serves aes-xts on all kernels.
	takes aes-xts-plain64be
	takes "capi:xts(ecb(aes-generic))-plain64"
	takes aes-cbc-plain64
	takes "capi:cbc(aes-generic)-plain64"
	takes "capi:gcm(aes)-random" integrity:28:aead
	takes "capi:gcm_base(ctr(aes-generic),ghash-generic)-random" integrity:28:aead
	xts=$(sync_driver "xts(aes)")
	cbc=$(sync_driver "cbc(aes)")
	gcm=$(sync_driver "gcm(aes)")
	[ -n "$xts" ] && [ -n "$cbc" ] && [ -n "$gcm" ] ||
		broken "no synchronous driver found for: xts ($xts), cbc ($cbc), gcm ($gcm)"
	CIPHERS[async-xts]="capi:cryptd($xts)-plain64"
	CIPHERS[async-cbc-eboiv]="capi:cryptd($cbc)-eboiv"
	CIPHERS[async-cbc-elephant]="capi:cryptd($cbc)-elephant"
	CIPHERS[async-gcm]="capi:cryptd($gcm)-random"
}

# sync_driver ALGORITHM: print the latest one that anybody may use. Those of the types lskcipher and
# shash are synchronous, although /proc/crypto does not say so.
sync_driver() {
	awk -v RS= -F '\n' -v wanted="$1" '{
		split("", is)
		for (i = 1; i <= NF; i++) {
			match($i, / *: /)
			is[substr($i, 1, RSTART - 1)] = substr($i, RSTART + RLENGTH)
		}
		if (is["name"] == wanted && is["internal"] == "no" &&
		    (is["async"] == "no" || is["type"] == "lskcipher" || is["type"] == "shash")) {
			print is["driver"]
			exit
		}
	}' /proc/crypto
}

# needs_events EVENT...: create a trace instance with these events, but off. Sets $INSTANCE.
needs_events() {
	local tracing=/sys/kernel/tracing event

	mountpoint -q $tracing || mount -t tracefs none $tracing 2>/dev/null
	INSTANCE=$tracing/instances/$NAME
	for event in "$@"; do
		[ -d "$tracing/events/$event" ] || skip "needs the trace event $event"
	done
	mkdir "$INSTANCE" || skip "needs trace instances"
	defer rmdir "$INSTANCE"
	echo 0 >"$INSTANCE/tracing_on"
	echo mono >"$INSTANCE/trace_clock" || broken "no clock"
	for event in "$@"; do
		echo 1 >"$INSTANCE/events/$event/enable" || broken "cannot trace $event"
	done
}

# traced COMMAND...: trace while the command runs.
traced() {
	local status

	echo >"$INSTANCE/trace"
	echo 1 >"$INSTANCE/tracing_on"
	"$@"
	status=$?
	echo 0 >"$INSTANCE/tracing_on"
	return $status
}

# control_group CONTROLLER: create a control group (v2) with it. Sets $GROUP.
control_group() {
	local above=/sys/fs/cgroup

	[ -e $above/cgroup.controllers ] || {
		above=$(mktemp -d) || broken "mktemp failed"
		defer rmdir "$above"
		mount -t cgroup2 cgroup2 "$above" 2>/dev/null || skip "needs cgroup v2"
		defer umount "$above"
	}
	grep -qw "$1" "$above/cgroup.controllers" || skip "needs the $1 controller of cgroup v2"
	if ! grep -qw "$1" "$above/cgroup.subtree_control"; then
		echo "+$1" >"$above/cgroup.subtree_control" || skip "cannot use the $1 controller"
		defer sh -c "echo -$1 >$above/cgroup.subtree_control"
	fi
	GROUP=$above/$NAME
	mkdir "$GROUP" || broken "cannot create a cgroup"
	defer rmdir "$GROUP"
}

# soon SECONDS COMMAND...: repeat the command until it succeeds, no longer than that.
soon() {
	local end=$((SECONDS + $1))

	until "${@:2}"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# each_seed SEED COMMAND...: run the command with SEED, SEED + 1 and so on as its last argument, for
# $TIME seconds, until it fails or the kernel warns.
each_seed() {
	local seed=$1 end=$((SECONDS + TIME)) said

	while [ $SECONDS -lt $end ] && ((failed == 0)); do
		said=$("${@:2}" $seed 2>&1)
		want "status of $2 with seed $seed" 0 $?
		no_warnings
		mark_log
		start_mark=$mark seed=$((seed + 1))
	done
	diag "$said"
	diag "$((seed - $1)) seeds"
}

# for_now FILE VALUE: write it to a file of the kernel, until the end.
for_now() {
	defer sh -c "echo $(cat "$1") >$1"
	echo "$2" >"$1" || broken "cannot set $1"
}

# inject KNOBS [NAME=VALUE]...: set up failures, of allocations of all kinds if they are of allocations. They end
# with the test case.
inject() {
	local knobs=$1 attribute

	shift
	defer sh -c "echo 0 >$knobs/probability"
	[ ! -e "$knobs/ignore-gfp-wait" ] || set -- ignore-gfp-wait=N "$@"
	[ ! -e "$knobs/min-order" ] || set -- min-order=0 ignore-gfp-highmem=N "$@"
	for attribute in task-filter=N verbose=0 interval=1 "$@"; do
		echo "${attribute#*=}" >"$knobs/${attribute%%=*}" || broken "cannot set $attribute in $knobs"
	done
}

# needs_kmemleak, forget_leaks, no_leaks: skip without it; forget what it has found; want no leak since then.
needs_kmemleak() {
	{ mountpoint -q $DEBUGFS || mount -t debugfs none $DEBUGFS; } 2>/dev/null
	# This is the default, but an error where kmemleak is off.
	{ echo stack=on >$DEBUGFS/kmemleak; } 2>/dev/null || skip "needs CONFIG_DEBUG_KMEMLEAK, and kmemleak=on"
}

forget_leaks() { echo clear >$DEBUGFS/kmemleak; }

no_leaks() {
	local leaks=$DEBUGFS/kmemleak

	# kmemleak reports a block when it was unreferenced twice, and is some seconds old.
	{ echo scan >$leaks && sleep 6 && echo scan >$leaks; } || broken "kmemleak has turned itself off"
	want "kmemleak" "" "$(grep -A 12 '^unreferenced' $leaks | grep -m 3 -E 'crypt')"
}

# below NAME TARGET ARGUMENTS: a mapping of all of $DEVICE. Sets $DEVICE.
below() { device "$1" "0 $(sectors_of "$DEVICE") ${*:2}"; }

# random_data SIZE: write that much to a temporary file. Sets $DATA.
random_data() {
	DATA=$(mktemp) || broken "mktemp failed"
	defer rm "$DATA"
	head -c "$1" /dev/urandom >"$DATA"
}

# arguments_of MAPPING: print its optional arguments, without their count.
arguments_of() { dmsetup table "${1##*/}" | cut -d ' ' -f 10-; }

# strerror ERRNO: print what programs call it.
strerror() { python3 -c 'import errno, os, sys; print(os.strerror(getattr(errno, sys.argv[1])))' "$1"; }

sectors_of() { blockdev --getsz "$1"; }

# numbers_of DEVICE: print MAJOR:MINOR.
numbers_of() { printf '%d:%d\n' "0x$(stat -Lc %t "$1")" "0x$(stat -Lc %T "$1")"; }

# block_dir DEVICE: print its directory in sysfs.
block_dir() { echo "/sys/dev/block/$(numbers_of "$1")"; }
