#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="cryptsetup's own tests pass with the patched program and library"
#
# Requires: root, dmsetup, losetup, udev, the patched cryptsetup and its built tests. A test that lacks
# something is skipped.
# Risks: the tests use mappings and modules by fixed names (dummy, scsi_debug): no other test may run
# at the same time.
# Provokes: I/O error
# Provokes: INTEGRITY AEAD ERROR

. "$(dirname "$0")/../cryptsetup/volumes.sh"

no_warnings() { :; } # the tests provoke I/O errors

UDEVD=/lib/systemd/systemd-udevd

# with_udev: it makes links by UUID, and keeps the node of a device whose removal is deferred. It reads
# every new device, also those of api-test-2 whose tags are not written yet: an integrity error.
with_udev() {
	[ -x $UDEVD ] || skip "needs $UDEVD"
	$UDEVD --daemon 2>/dev/null || broken "cannot start udev"
	defer rm -rf /run/udev
	defer udevadm control --exit
	udevadm trigger --action=add && udevadm settle || broken "udev does not settle"
	unset DM_DISABLE_UDEV
}

# own_test NAME: run it in its directory, where it finds its images and may write.
own_test() {
	local path=(CRYPTSETUP_PATH="$CRYPTSETUP_PREFIX/sbin") log=$WORK/log status

	[ -x "$WORK/tests/$1" ] || broken "no $1 in $CRYPTSETUP_TESTS"
	# The tests of the library know where it was built, and refuse the variable.
	case $1 in api-test*) path=(-u CRYPTSETUP_PATH) ;; esac
	(cd "$WORK/tests" && PATH=$WORK/bin:$PATH exec env "${path[@]}" OPENSSL_CONF="$WORK/openssl.cnf" "./$1") \
		>"$log" 2>&1 </dev/null
	status=$?
	case $status in
	0) ;;
	77) skip "$(grep -ai -e skip -e cannot "$log" | tail -n 1)" ;;
	*)
		want "exit status" 0 "$status"
		diag "$(tail -n 25 "$log" | tr -cd '[:print:]\n')"
		;;
	esac
}

requires_cryptsetup
[ -d "$CRYPTSETUP_TESTS" ] || skip "needs cryptsetup's tests in CRYPTSETUP_TESTS"
mkdir "$WORK/tests"
tar -C "$CRYPTSETUP_TESTS" -c --exclude='*.o' . | tar -C "$WORK/tests" -x || broken "cannot copy the tests"

# The generators of test headers give jq files with zero bytes at the end, which newer versions refuse.
mkdir "$WORK/bin"
cat >"$WORK/bin/jq" <<'END'
#!/bin/bash
if [ $# -gt 1 ] && [ -f "${!#}" ]; then
	tr -d '\0' <"${!#}" | /usr/bin/jq "${@:1:$#-1}"
else
	exec /usr/bin/jq "$@"
fi
END
chmod 755 "$WORK/bin/jq"

# api-test-2 of v2.3.3 wants whirlpool, which OpenSSL 3 has among its legacy algorithms alone.
printf '%s\n' "openssl_conf = init" "[init]" "providers = all" "[all]" "default = on" "legacy = on" \
	"[on]" "activate = 1" >"$WORK/openssl.cnf"

with_udev
CASES=("own_test device-test" "own_test api-test-2" "own_test luks2-validation-test"
	"own_test compat-test2")
# The others take minutes each.
quick_cases "own_test device-test"
run
