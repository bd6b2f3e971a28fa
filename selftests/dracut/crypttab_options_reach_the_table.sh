#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="an initramfs without systemd sets the performance options of crypttab"
#
# dracut's own test, number 83, has a cryptsetup that only prints its arguments. This one uses the
# distribution's cryptsetup and looks at the table of dm-crypt.
# Requires: root, dmsetup, null_blk, cryptsetup 2.3.4, the patched dracut in TREE.
# Risks: none.

CRYPTSETUP=/sbin/cryptsetup
. "$(dirname "$0")/../cryptsetup/volumes.sh"

OWN=test/TEST-83-CRYPTROOT-ASK
ALL=(same-cpu-crypt submit-from-crypt-cpus no-read-workqueue no-write-workqueue) # in the order of the table

# cryptroot-ask.sh, as dracut's test prepares it, without the cryptsetup of that test.
prepare() {
	[ -x "$TREE/$OWN/test.sh" ] || skip "needs the patched dracut in TREE"
	cp -r "$TREE/test" "$WORK/test" || broken "cannot copy dracut's tests"
	(cd "$WORK/$OWN" && PKGLIBDIR=$TREE TESTDIR=$WORK testdir=$WORK/test ./test.sh --setup) ||
		broken "dracut's test has no setup"
	sed -i -e '/^cryptsetup() {/,/^}/d' "$WORK/cryptroot-ask.sh"
}

# passed_on TYPE OPTION...
passed_on() {
	local type=$1 options

	shift
	options=$*
	volume "$type"
	printf %s "$SECRET" >"$WORK/key"
	echo "$VOLUME $DEVICE $WORK/key timeout=0,${options// /,}" >"$WORK/crypttab"
	rm -f "$WORK"/cryptroot-asked-*
	defer close_volume
	sh "$WORK/cryptroot-ask.sh" "$DEVICE" "luks-of-$VOLUME" >"$WORK/out" 2>&1
	want "exit status" 0 $? || diag "$(<"$WORK/out")"
	want "options in the table" "$(counted ${options//-/_})" "$(arguments "$VOLUME")"
}

requires_cryptsetup flags
prepare
CASES=("passed_on luks2")
for option in "${ALL[@]}"; do
	CASES+=("passed_on luks2 $option")
done
CASES+=("passed_on luks2 allow-discards ${ALL[*]}" "passed_on luks1 ${ALL[*]}")
run
