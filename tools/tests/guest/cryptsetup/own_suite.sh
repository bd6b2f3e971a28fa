#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: cryptsetup's own tests pass with the patched program and library.
# Needs: root, dmsetup, losetup, the patched cryptsetup and its built tests; what
# one of them lacks makes that one a skip. Endangers: they use mappings and modules
# by fixed names (dummy, scsi_debug), so no other test may run beside them.
# Provokes: I/O error

here=$(dirname "$0")
. "$here/../dm-crypt/ktap.sh"
. "$here/../dm-crypt/dm_crypt.sh"
. "$here/volumes.sh"

SUITE_UUID=12345678-1234-1234-1234-123456789abc

# needs_udev LOG: without udev libdevmapper itself removes the node of a device, at
# once, also when the removal is only deferred, and api-test-2 looks for the node.
needs_udev() {
	local line

	line=$(tail -n 1 "$1" | sed -n 's/^FAIL line \([0-9]*\) \[Luks2Reencryption\].*/\1/p')
	! [ -S /run/udev/control ] && [ -n "$line" ] &&
		sed -n "${line}p" "$WORK/tests/api-test-2.c" | grep -q 't_device_size(DMDIR CDEVICE_2'
}

# own_test NAME: run it in its directory, where it finds its images and may write.
own_test() {
	local path=(CRYPTSETUP_PATH="$CRYPTSETUP_PREFIX/sbin") log=$WORK/log status

	[ -x "$WORK/tests/$1" ] || broken "no $1 in $CRYPTSETUP_TESTS"
	# The tests of the library know where it was built, and refuse the variable.
	case $1 in api-test*) path=(-u CRYPTSETUP_PATH) ;; esac
	(cd "$WORK/tests" && PATH=$WORK/bin:$PATH exec env "${path[@]}" "./$1") >"$log" 2>&1 </dev/null
	status=$?
	case $status in
	0) ;;
	77) skip "$(grep -ai -e skip -e cannot "$log" | tail -n 1)" ;;
	*)
		if needs_udev "$log"; then
			skip "$1 passed up to Luks2Reencryption, which needs udev"
			return
		fi
		want "exit status" 0 "$status"
		diag "$(tail -n 25 "$log" | tr -cd '[:print:]\n')"
		;;
	esac
}

require_cryptsetup
[ -d "$CRYPTSETUP_TESTS" ] || skip_all "needs cryptsetup's tests in CRYPTSETUP_TESTS"
mkdir "$WORK/tests"
tar -C "$CRYPTSETUP_TESTS" -c --exclude='*.o' . | tar -C "$WORK/tests" -x || broken "cannot copy the tests"

# The generators of test headers give jq files padded with zero bytes, which newer
# ones refuse: take them away before.
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

# compat-test2 opens its loop device by UUID. Without udev nobody makes the link.
if ! [ -S /run/udev/control ]; then
	mkdir -p /dev/disk/by-uuid
	ln -s "$(losetup -f)" "/dev/disk/by-uuid/$SUITE_UUID" || broken "cannot make a link by UUID"
	defer rm "/dev/disk/by-uuid/$SUITE_UUID"
fi

CLAIMS=()
for name in device-test luks2-validation-test compat-test2 api-test-2; do
	CLAIMS+=("own_test $name")
done
# The last one takes as long as the others together, and without udev cannot end.
quick_claims "${CLAIMS[@]:0:3}"
run_claims
