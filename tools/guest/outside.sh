#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run $TESTS of $CHECKOUT, a checkout of blktests or, with $FSTYP, of xfstests, on mappings of
# dm-crypt with $OPTIONS. $ZONED: on a zoned device. $CRYPTD: the cipher completes asynchronously.
# Each test has $LIMIT seconds. A line for each: its name, pass, fail or skip, seconds; # precedes
# its own output. A test that fails may leave devices and mounts behind: it ends the guest.

crypt_device() { # NAME DEVICE
	dmsetup create "$1" --table "0 $(blockdev --getsz "$2") crypt ${cipher:-aes-xts-plain64} \
		$(printf %0128x 1) 0 $2 0 $(($(wc -w <<<"$OPTIONS") + 1)) allow_discards $OPTIONS"
}

zoned_device() {
	local directory=/sys/kernel/config/nullb/nullb0 word

	modprobe null_blk nr_devices=0 && mkdir "$directory" || return
	for word in size=1024 memory_backed=1 zoned=1 zone_size=4 zone_max_open=12 power=1; do
		echo "${word#*=}" >"$directory/${word%=*}"
	done
}

# Before /tmp is hidden, which may contain the checkout.
mkdir -p /run/checkout /run/test /run/scratch /run/udev
mount --bind "$CHECKOUT" /run/checkout && cd /run/checkout || exit 1
mount -t tmpfs tmp /tmp
for file in passwd group; do
	cp "/etc/$file" /run
	chmod 644 "/run/$file"
	mount --bind "/run/$file" "/etc/$file"
done
for user in fsgqa:2000 fsgqa2:2001 123456-fsgqa:2002; do
	echo "${user%:*}:*:${user#*:}:${user#*:}::/tmp:/bin/bash" >>/etc/passwd
	echo "${user%:*}:*:${user#*:}:" >>/etc/group
done
umask 022
/usr/lib/systemd/systemd-udevd --daemon 2>/dev/null || exit 1
unset DM_DISABLE_UDEV

modprobe dm-crypt || exit 1
modprobe brd rd_nr=2 rd_size=1048576 || exit 1
if [ -n "$CRYPTD" ]; then
	# The name of the driver below cryptd, once the kernel has made it
	cipher=capi:xts\(aes\)-plain64be crypt_device crypt_test /dev/ram0 && dmsetup remove crypt_test || exit 1
	modprobe cryptd
	cipher="capi:cryptd($(awk '$1 == "name" { name = $3 } $1 == "driver" { driver = $3 }
		$1 == "internal" && $3 == "no" && name == "xts(aes)" { print driver; exit }' /proc/crypto))-plain64"
fi
below=/dev/ram0
[ -z "$ZONED" ] || { zoned_device && below=/dev/nullb0; } || exit 1
crypt_device crypt_test "$below" && crypt_device crypt_scratch /dev/ram1 || exit 1
udevadm settle

export TEST_DEV=/dev/mapper/crypt_test
if [ -n "$FSTYP" ]; then
	export FSTYP TEST_DIR=/run/test SCRATCH_DEV=/dev/mapper/crypt_scratch SCRATCH_MNT=/run/scratch
	export RESULT_BASE=$RESULTS HOST_OPTIONS=/dev/null
	check=(./check)
	"mkfs.$FSTYP" -q "$TEST_DEV" || exit 1
else
	export TEST_DEVS=$TEST_DEV TIMEOUT=10 # seconds, of tests that take any number
	check=(./check -o "$RESULTS/results")
	# It writes 64 MiB in pieces of 4 KiB, for each of which User-Mode Linux would wait 10 ms.
	sed s/irqmode=2/irqmode=0/ tests/zbd/013 >/run/013 && mount --bind /run/013 tests/zbd/013
fi
for test in $TESTS; do
	echo "guest test: $test" >/dev/kmsg
	start=$SECONDS
	output=$(timeout --kill-after=10 "$LIMIT" "${check[@]}" "$test" 2>&1)
	status=$? verdict=pass
	! grep -q "^$test .*\[not run\]" <<<"$output" || verdict=skip
	[ $status -eq 0 ] || verdict=fail
	[ $verdict = pass ] || echo "# ${output//$'\n'/$'\n# '}"
	echo "$test $verdict $((SECONDS - start))"
	[ $verdict != fail ] || exit 0
done
