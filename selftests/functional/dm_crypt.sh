# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # what is set here is for the tests
#
# What a test needs, mappings and the kernel log for the dm-crypt tests.
# Everything made here has a private name and is undone by `defer` of ktap.sh.

export LC_ALL=C

. "${BASH_SOURCE[0]%/*}/disks.sh"
. "${BASH_SOURCE[0]%/*}/io.sh"

DEBUGFS=/sys/kernel/debug
PREFIX=dm-crypt-test-$$

# The modes a mapping can have, and the optional arguments each one takes.
MODES=(default no_read no_write both)
declare -A FLAGS=(
	[default]=""
	[no_read]="no_read_workqueue"
	[no_write]="no_write_workqueue"
	[both]="no_read_workqueue no_write_workqueue"
)

# The time a test may take: FULL, or QUICK where DM_CRYPT_QUICK is set.
full_or_quick() {
	[ -n "$DM_CRYPT_QUICK" ] && echo "$2" || echo "$1"
}

# quick_claims CLAIM...: the ones to try where time is short.
quick_claims() {
	[ -z "$DM_CRYPT_QUICK" ] || CLAIMS=("$@")
}

# needs WORD...: the machine has what the test uses, or all of it is a skip. A word
# that is none of those below names a program.
needs() {
	local word

	[ "$EUID" -eq 0 ] || skip_all "needs root"
	for word in dmsetup blockdev "$@"; do
		case $word in
		flags) needs_flags ;;
		modes) needs_modes ;;
		async) needs_async ;;
		null_blk) needs_null_blk ;;
		target:*) needs_target "${word#target:}" ;;
		debugfs)
			mountpoint -q $DEBUGFS || mount -t debugfs none $DEBUGFS 2>/dev/null
			mountpoint -q $DEBUGFS || skip_all "needs debugfs"
			;;
		*) command -v "$word" >/dev/null || skip_all "needs the program $word" ;;
		esac
	done
}

needs_flags() {
	known_flags
	[ -n "${FLAGS[no_read]}" ] && [ -n "${FLAGS[no_write]}" ] ||
		skip_all "dm-crypt knows no no_read_workqueue and no_write_workqueue"
}

# All modes of a driver with the flags. Where DM_CRYPT_ANY_DRIVER is set, one that
# lacks a flag is tested too: as if the mode had it not.
needs_modes() {
	if [ -n "$DM_CRYPT_ANY_DRIVER" ]; then
		known_flags
	else
		needs_flags
	fi
}

# known_flags: leave in $FLAGS what dm-crypt takes. That counts, not what its
# version says: versions do not tell which fixes and features were backported.
known_flags() {
	local mode

	needs_target crypt
	needs_target zero
	mark_log
	if ! takes; then
		! log_since_mark | grep -q "Error allocating crypto tfm" || skip_all "needs CONFIG_CRYPTO_NULL"
		broken "dm-crypt refuses the null cipher"
	fi
	! takes ${FLAGS[both]} || return 0
	for mode in no_read no_write; do
		takes ${FLAGS[$mode]} || FLAGS[$mode]=""
	done
	[ -z "${FLAGS[no_read]}" ] || [ -z "${FLAGS[no_write]}" ] ||
		broken "dm-crypt takes either flag, but not both"
	FLAGS[both]=${FLAGS[no_read]}${FLAGS[no_write]}
}

# takes [OPTIONAL ARGUMENT]...: a mapping comes up with them.
takes() {
	takes_cipher cipher_null-ecb 0 "$@"
}

# takes_cipher CIPHER KEY_BYTES [OPTIONAL ARGUMENT]...
takes_cipher() {
	local name=$PREFIX-flags table key

	dmsetup create "$name-zero" --table "0 8 zero" || broken "dmsetup create failed"
	defer dmsetup remove --retry "$name-zero"
	key=$(key "$2")
	table="0 8 crypt $1 ${key:--} 0 /dev/mapper/$name-zero 0"
	shift 2
	if dmsetup create "$name" --table "$table${*:+ $# $*}" 2>/dev/null; then
		defer dmsetup remove --retry "$name"
		undo_last 2
		return 0
	fi
	undo_last
	return 1
}

# Names of ciphers that always complete asynchronously, for claims: cryptd over what the
# kernel has for AES. Once made, such an instance stays, and unless the CPU has instructions
# for AES the kernel then prefers it to what it was made of: what is synchronous comes first.
declare -A ASYNC

needs_async() {
	local xts cbc gcm

	CLAIMS_LAST="async-"
	needs_target crypt
	needs_target zero
	modprobe -q cryptd
	[ -d /sys/module/cryptd ] || skip_all "needs CONFIG_CRYPTO_CRYPTD"
	# Whatever has the highest priority, and one that is synchronous where that is not.
	takes_cipher aes-xts-plain64 64
	takes_cipher "capi:xts(ecb(aes-generic))-plain64" 64
	takes_cipher aes-cbc-plain64 32
	takes_cipher "capi:cbc(aes-generic)-plain64" 32
	takes_cipher "capi:gcm(aes)-random" 32 integrity:28:aead
	takes_cipher "capi:gcm_base(ctr(aes-generic),ghash-generic)-random" 32 integrity:28:aead
	xts=$(sync_driver "xts(aes)")
	cbc=$(sync_driver "cbc(aes)")
	gcm=$(sync_driver "gcm(aes)")
	[ -n "$xts" ] && [ -n "$cbc" ] && [ -n "$gcm" ] ||
		broken "no synchronous driver found for: xts ($xts), cbc ($cbc), gcm ($gcm)"
	ASYNC[async-xts]="capi:cryptd($xts)-plain64"
	ASYNC[async-cbc-eboiv]="capi:cryptd($cbc)-eboiv"
	ASYNC[async-cbc-elephant]="capi:cryptd($cbc)-elephant"
	ASYNC[async-gcm]="capi:cryptd($gcm)-random"
}

# sync_driver ALGORITHM: one that anybody may use, the latest. Those of the type lskcipher are
# synchronous, and do not say so.
sync_driver() {
	awk -v RS= -F '\n' -v wanted="$1" '{
		split("", is)
		for (i = 1; i <= NF; i++) {
			match($i, / *: /)
			is[substr($i, 1, RSTART - 1)] = substr($i, RSTART + RLENGTH)
		}
		if (is["name"] == wanted && is["internal"] == "no" &&
		    (is["async"] == "no" || is["type"] == "lskcipher")) {
			print is["driver"]
			exit
		}
	}' /proc/crypto
}

# cipher NAME: as a table has it.
cipher() {
	echo "${ASYNC[$1]:-$1}"
}

needs_target() {
	has_target "$1" || { modprobe -q "dm-$1" && has_target "$1"; } ||
		skip_all "needs the device mapper target $1"
}

has_target() {
	dmsetup targets 2>/dev/null | grep -q "^$1 "
}

needs_null_blk() {
	[ ! -d "$NULLB" ] || return 0
	modprobe -q configfs
	modprobe -q null_blk nr_devices=0
	mountpoint -q /sys/kernel/config ||
		mount -t configfs none /sys/kernel/config 2>/dev/null
	[ -d "$NULLB" ] || skip_all "needs CONFIG_BLK_DEV_NULL_BLK and CONFIG_CONFIGFS_FS"
}

# needs_events EVENT...: a trace instance of the test's own, left in $INSTANCE, with these
# events in it. Its tracing is off.
needs_events() {
	local tracing=/sys/kernel/tracing event

	mountpoint -q $tracing || mount -t tracefs none $tracing 2>/dev/null
	INSTANCE=$tracing/instances/$PREFIX
	for event in "$@"; do
		[ -d "$tracing/events/$event" ] || skip_all "needs the trace event $event"
	done
	mkdir "$INSTANCE" || skip_all "needs trace instances"
	defer rmdir "$INSTANCE"
	echo 0 >"$INSTANCE/tracing_on"
	for event in "$@"; do
		echo 1 >"$INSTANCE/events/$event/enable" || broken "cannot trace $event"
	done
}

# control_group CONTROLLER: a control group of the test's own (v2) that has it, left in $GROUP.
control_group() {
	local above=/sys/fs/cgroup

	[ -e $above/cgroup.controllers ] || {
		above=$(mktemp -d) || broken "mktemp failed"
		defer rmdir "$above"
		mount -t cgroup2 cgroup2 "$above" 2>/dev/null || skip_all "needs cgroup v2"
		defer umount "$above"
	}
	grep -qw "$1" "$above/cgroup.controllers" || skip_all "needs the $1 controller of cgroup v2"
	if ! grep -qw "$1" "$above/cgroup.subtree_control"; then
		echo "+$1" >"$above/cgroup.subtree_control" || skip_all "cannot use the $1 controller"
		defer sh -c "echo -$1 >$above/cgroup.subtree_control"
	fi
	GROUP=$above/$PREFIX
	mkdir "$GROUP" || broken "cannot create a cgroup"
	defer rmdir "$GROUP"
}

# crypt_table DEVICE CIPHER KEY [OPTIONAL ARGUMENT]...
crypt_table() {
	local device=$1 cipher=$2 key=$3

	shift 3
	printf '0 %d crypt %s %s 0 %s 0' "$(sectors_of "$device")" "$(cipher "$cipher")" "${key:--}" "$device"
	[ $# -eq 0 ] || printf ' %d %s' $# "$*"
	printf '\n'
}

# map NAME TABLE: a mapping that must come up. Its path is left in $MAPPED, and
# the kernel log is marked right before it.
# Only a cipher that the kernel does not have makes it a skip, with status 1.
map() {
	mark_log
	if ! dmsetup create "$PREFIX-$1" <<<"$2"; then
		log_since_mark | grep -q "Error allocating crypto tfm" ||
			broken "dmsetup create failed: $2"
		skip "the kernel lacks the cipher $(cut -d ' ' -f 4 <<<"$2" | head -n 1)"
		return 1
	fi
	defer dmsetup remove --retry "$PREFIX-$1"
	[ ! -S /run/udev/control ] || udevadm settle
	MAPPED=/dev/mapper/$PREFIX-$1
	[ -b "$MAPPED" ] || broken "$MAPPED did not appear"
}

# map_flags NAME CIPHER KEY_BYTES MODE: all of $DISK, with the mode's flags, which
# the table then has to show.
map_flags() {
	map "$1" "$(crypt_table "$DISK" "$2" "$(key "$3")" ${FLAGS[$4]})" || return
	want "flags of the mapping" "${FLAGS[$4]}" "$(arguments_of "$PREFIX-$1")"
}

# arguments_of NAME: the optional arguments in force, without their count.
arguments_of() {
	dmsetup table "$1" | cut -d ' ' -f 10-
}

# strerror ERRNO: what programs call it, by its name.
strerror() {
	python3 -c 'import errno, os, sys; print(os.strerror(getattr(errno, sys.argv[1])))' "$1"
}

# key BYTES: an obviously fake key, every byte different from its neighbour.
key() {
	local i

	for ((i = 1; i <= $1; i++)); do
		printf '%02x' $((i * 7 % 256))
	done
}

# Remember this point of the kernel log; later looks begin here.
mark_log() {
	LOG_MARK="$PREFIX-mark-$RANDOM$RANDOM"
	echo "$LOG_MARK" >/dev/kmsg || broken "cannot write to /dev/kmsg"
}

# Without the times, so that patterns can be anchored.
log_since_mark() {
	dmesg | sed -E "0,/$LOG_MARK/d; s/^(\[[^]]*\])* *//"
}

# What no test may provoke: reports of the kernel's debugging aids, lost I/O.
COMPLAINTS='^(watchdog: |\[ )?(BUG|WARNING|KASAN|UBSAN|ODEBUG|Oops|INFO: task|INFO: rcu|kernel BUG)'
COMPLAINTS+='|^(Internal error|Unable to handle)'
COMPLAINTS+='|^general protection fault|^rcu: .* stall|^(list_(add|del) corruption|refcount_t: )'
COMPLAINTS+='|possible (recursive|circular) locking|inconsistent lock state|suspicious RCU'
COMPLAINTS+='|I/O error|page allocation failure'

# no_complaints [EXPECTED]: nor anything else than lines with EXPECTED. A log that has lost
# the mark may have lost a complaint too.
no_complaints() {
	want "marks in the kernel log" 1 "$(dmesg | grep -c "$LOG_MARK")"
	want "kernel messages" "" \
		"$(log_since_mark | grep -E "$COMPLAINTS" | grep -v "${1:-no such line}" | head -n 5)"
}
