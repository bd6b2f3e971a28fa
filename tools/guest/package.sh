#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Steps of the proof of the package, each in a boot of its own, as proofs/package_guests.py orders them.
# One line a claim: "ok: ..." or "not ok: ...". A step that gets to its end says so.
set -u
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
kernel=$(uname -r)
trap 'systemctl poweroff --force' EXIT

claim() {
	local what=$1
	shift
	if "$@"; then echo "ok: $what"; else echo "not ok: $what"; fi
}
same() { [ "$1" = "$2" ] || { echo "wanted '$1', got '$2'"; return 1; }; }
fails() { ! "$@"; }
# What is loaded, placed and in the initramfs, as the program itself says it.
status() { dm-crypt-inline status | tee /dev/stderr; }
after_reboot() { status | grep -x "$1: after a reboot $2, in the initramfs, and in /lib/modules $2; why: .*" >/dev/null; }

root_is_open_with_the_flags() {
	same "no_read_workqueue no_write_workqueue" \
		"$(dmsetup table root | grep -o 'no_[a-z]*_workqueue' | sort -u | tr '\n' ' ' | sed 's/ $//')"
}
ours_is_loaded() {
	claim "the root is open, with both flags" root_is_open_with_the_flags
	claim "the module that is loaded is ours" grep -qx '.*-inline' /sys/module/dm_crypt/version
	claim "it says so in the log" sh -c "dmesg | grep \"crypt: not the kernel's own\""
	claim "the log is there" sh -c "dmesg | grep -q 'Linux version'"
	claim "no complaint in the log" fails grep -E 'BUG:|WARNING:|Oops' <(dmesg)
	claim "user space sees the version of the target" grep -qE '^crypt +v1\.[0-9]+\.[0-9]+$' <(dmsetup targets)
}
stock_is_loaded() {
	claim "the root is open, with both flags" root_is_open_with_the_flags
	claim "the module that is loaded is stock" fails [ -e /sys/module/dm_crypt/version ]
}
kselftests() {
	local test
	for test in table regressions; do
		claim "kselftest $test" sh -c "cd dm-crypt && bash ./$test.sh"
	done
}
install_package() { dpkg -i ./package.deb; }
install_kernel() {
	local base
	for base in "/var/cache/$1"/linux-base_*.deb; do # what the kernel pre-depends on
		[ ! -e "$base" ] || dpkg -i "$base"
	done
	dpkg -i "/var/cache/$1"/*.deb
}
newest() { find /lib/modules -mindepth 1 -maxdepth 1 -name "$1*" -printf '%f\n' | sort -V | tail -n 1; }
# The machine restarts at once when something exists, and what no disk has yet is lost: a power cut.
cut_at() {
	while ! compgen -G "$1" >/dev/null; do sleep 0.01; done
	echo b >/proc/sysrq-trigger
}

# A field of what advise says of the root, as Python writes it.
advised() {
	python3 -m dmcrypt_inline.advise --json |
		python3 -c 'import json, sys; [it] = json.load(sys.stdin)["mappings"]; print(it[sys.argv[1]])' "$1"
}

step() {
	case $1 in
	install)
		stock_is_loaded
		claim "the package is installed" install_package
		claim "after a reboot it is ours" after_reboot "$kernel" '.*-inline'
		claim "stock is still there, too" compgen -G "/lib/modules/$kernel/kernel/drivers/md/dm-crypt.ko*"
		;;
	refused)
		stock_is_loaded
		claim "the package is installed" install_package
		claim "after a reboot it is stock" after_reboot "$kernel" stock
		claim "with the reason" grep -q 'this package has no dm-crypt for Linux' "/var/lib/dm-crypt-inline/$kernel"
		;;
	ours)
		ours_is_loaded
		;;
	kselftests)
		kselftests
		;;
	remove)
		claim "the package is removed" dpkg --purge dm-crypt-inline-dkms
		claim "nothing of it is left" fails compgen -G "/lib/modules/*/updates/drivers/md/*"
		claim "nor in dkms" [ ! -e /var/lib/dkms/dm-crypt-inline ]
		;;
	stock)
		stock_is_loaded
		;;
	early)
		claim "a later release arrives before ours has run" install_kernel trixie-security
		claim "it keeps its own" after_reboot "$(newest 6.12)" stock
		claim "with the reason" grep -q 'ours has not run' "/var/lib/dm-crypt-inline/$(newest 6.12)"
		;;
	running)
		claim "what runs can be installed" dm-crypt-inline install "$kernel"
		claim "after a reboot it is ours" after_reboot "$kernel" '.*-inline'
		;;
	series)
		claim "a kernel of another known series arrives" install_kernel trixie-backports
		claim "after a reboot it is ours" after_reboot "$(newest 7.3)" '.*-inline'
		;;
	unknown)
		sed -i '/^highest-7/d; s/^\(highest-6.12 :=\) .*/\1 117/' /usr/src/dm-crypt-inline-*/kernels.mk
		claim "a release that is not known arrives" install_kernel trixie-security
		claim "it keeps its own" after_reboot "$(newest 6.12)" stock
		claim "with the reason" grep -q 'up to .117, not .118' "/var/lib/dm-crypt-inline/$(newest 6.12)"
		claim "a series that is not known arrives" install_kernel trixie-backports
		claim "it keeps its own" after_reboot "$(newest 7.3)" stock
		;;
	broken)
		for source in /usr/src/dm-crypt-inline-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		claim "a kernel arrives for which the module cannot be built" install_kernel trixie-security
		claim "it has an initramfs" [ -e "/boot/initrd.img-$(newest 6.12)" ]
		claim "after a reboot it is stock" after_reboot "$(newest 6.12)" stock
		;;
	full)
		before=$(sha256sum <"/boot/initrd.img-$kernel")
		dd if=/dev/zero of=/boot/full bs=64k 2>/dev/null
		claim "the package is installed, with a full /boot" install_package
		claim "the initramfs is the same" same "$before" "$(sha256sum <"/boot/initrd.img-$kernel")"
		claim "after a reboot it is stock" after_reboot "$kernel" stock
		claim "with the reason" grep -q 'no initramfs could be made' "/var/lib/dm-crypt-inline/$kernel"
		;;
	unfinished)
		for source in /usr/src/dm-crypt-inline-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		dd if=/dev/zero of=/boot/full bs=64k 2>/dev/null
		claim "it cannot be built again" fails dm-crypt-inline install "$kernel"
		claim "that stock is not back is noted" grep -q '^unfinished: ' "/var/lib/dm-crypt-inline/$kernel"
		claim "the package is not removed, with a full /boot" fails dpkg --purge dm-crypt-inline-dkms
		rm /boot/full
		claim "with room it is" dpkg --purge dm-crypt-inline-dkms
		;;
	advice)
		claim "advise finds the flags in the initramfs" \
			same "['no_read_workqueue', 'no_write_workqueue']" "$(advised initramfs)"
		claim "nothing disagrees" same "[]" "$(advised conflicts)"
		sed -i 's/,no-write-workqueue//' /etc/crypttab
		older=$(advised conflicts)
		again=$(sed -n "s/^\['the initramfs has .* no_write_workqueue, .*: \(.*\)'\]$/\1/p" <<<"$older")
		claim "it says that the initramfs is older than crypttab: $older" [ "$again" ]
		claim "'$again' makes a new one" $again
		claim "which it reads" same "['no_read_workqueue']" "$(advised initramfs)"
		claim "it names what the next boot lacks" grep -q 'stored nowhere.*no_write_workqueue' <<<"$(advised conflicts)"
		;;
	cut_*)
		case $1 in
		cut_building) cut_at "/var/lib/dkms/dm-crypt-inline/*/build/dm-crypt.o" & ;;
		cut_placed) cut_at "/lib/modules/*/updates/drivers/md/dm-crypt.ko*" & ;;
		cut_initramfs) cut_at "/boot/initrd.img-*.dm-crypt-inline" & ;;
		cut_replaced) cut_at "/var/lib/dm-crypt-inline/$kernel" & ;;
		esac
		install_package
		;;
	go_on)
		claim "dpkg goes on" dpkg --configure -a
		claim "after a reboot it is ours" after_reboot "$kernel" '.*-inline'
		;;
	*)
		claim "there is a step $1" false
		;;
	esac
}

for each in "$@"; do
	echo "begin of $each"
	step "$each"
	echo "end of $each"
done
