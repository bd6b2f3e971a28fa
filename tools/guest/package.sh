#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Steps of the package's tests; testing/package_guests.py says which of them run in which boot.
# One line a case: "ok: ..." or "not ok: ...". Each step prints its begin and its end.
set -u
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
kernel=$(uname -r)
trap 'echo "end of this boot"; systemctl poweroff --force' EXIT

# check CASE COMMAND...: the case passes when the command succeeds.
check() {
	local case=$1
	shift
	# Other programs may not have ended their line.
	if "$@"; then printf '\nok: %s\n' "$case"; else printf '\nnot ok: %s\n' "$case"; fi
}
same() { [ "$1" = "$2" ] || { echo "wanted '$1', got '$2'"; return 1; }; }
fails() {
	"$@"
	case $? in 0 | 126 | 127) return 1 ;; esac # a missing program has not failed
}
# The module that is loaded, the one in /lib/modules and the one in the initramfs.
status() { dmcrypt-dkms status | tee /dev/stderr; }
after_reboot() {
	status | grep -x "$1: after a reboot \($2\), in the initramfs, and in /lib/modules \1; why: \1: .*" >/dev/null
}

root_is_open_with_the_flags() {
	same "no_read_workqueue no_write_workqueue" \
		"$(dmsetup table root | grep -o 'no_[a-z]*_workqueue' | sort -u | tr '\n' ' ' | sed 's/ $//')"
}
log_is_clean() {
	check "the log can be read" sh -c "dmesg | grep -q 'Linux version'"
	check "the log has no kernel warning" fails grep -E 'BUG:|WARNING:|Oops' <(dmesg)
}
patched_is_loaded() {
	check "the root is open, with both flags" root_is_open_with_the_flags
	check "the patched module is loaded" grep -qx '[^ ]*-inline' /sys/module/dm_crypt/version
	check "the log says so" sh -c "dmesg | grep \"crypt: not the kernel's own\""
	log_is_clean
	check "user space sees the version of the target" grep -qE '^crypt +v1\.[0-9]+\.[0-9]+$' <(dmsetup targets)
}
original_is_loaded() {
	check "the root is open, with both flags" root_is_open_with_the_flags
	check "the distribution's module is loaded" fails [ -e /sys/module/dm_crypt/version ]
}
kselftests() {
	local test
	for test in table regressions; do
		check "kselftest $test" sh -c "cd dm-crypt && bash ./$test.sh"
	done
	log_is_clean
}
install_package() { dpkg -i ./package.deb; }
# The same package with a higher version.
next_package() {
	local version
	version=$(dpkg-deb -f package.deb Version)
	dpkg-deb -R package.deb next && mv "next/usr/src/dmcrypt-dkms-$version" next/usr/src/dmcrypt-dkms-99 &&
		grep -rlZF "$version" next/DEBIAN next/usr/sbin next/usr/src/*/{kernels.mk,dkms.conf} |
		xargs -0 sed -i "s/\b${version//./\\.}\b/99/" && rm -f next/DEBIAN/md5sums && dpkg-deb -b next next.deb
}
install_kernel() {
	local base
	for base in "/var/cache/$1"/linux-base_*.deb; do # a pre-dependency of the kernel
		[ ! -e "$base" ] || dpkg -i "$base"
	done
	dpkg -i "/var/cache/$1"/*.deb
}
# MokManager asks for the password at the next start.
import_key() { yes 'not a secret' | head -n 2 | mokutil --import /var/lib/dkms/mok.pub; }
newest() { find /lib/modules -mindepth 1 -maxdepth 1 -name "$1*" -printf '%f\n' | sort -V | tail -n 1; }
# cut_when COMMAND: a power cut as soon as the command succeeds; unwritten data are lost.
cut_when() {
	until "$@"; do sleep 0.01; done
	echo b >/proc/sysrq-trigger
}
exists() { compgen -G "$1" >/dev/null; }
is_on_disk() { exists "$1" && [ -s "$(compgen -G "$1")" ] && sync; }

# advised FIELD [NAME]: a field of advise's JSON for a mapping (default: root), as Python prints it.
advised() {
	python3 -m dmcrypt_advise --json | python3 -c 'import json, sys
field, name = sys.argv[1:]
print(*(it[field] for it in json.load(sys.stdin)["mappings"] if it["name"] == name))' "$1" "${2:-root}"
}
flags_of() { dmsetup table "$1" | grep -o 'no_[a-z]*_workqueue' | xargs; }
flags_stored() { cryptsetup luksDump "$1" | sed -n 's/^Flags:[[:space:]]*//p' | xargs; }
# volume_on DEVICE NAME: a LUKS2 volume, open.
volume_on() {
	cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file passphrase "$1" &&
		cryptsetup open --key-file passphrase "$1" "$2" && udevadm settle
}
# advice_is_followed DEVICE NAME DISKS: the advice, --apply and --undo.
advice_is_followed() {
	check "$2: advise walks down to $3" same "$3" "$(advised disks "$2")"
	check "$2: advise describes the disks" grep -q "nvme0n1: NVMe, not rotational" <<<"$(python3 -m dmcrypt_advise)"
	check "$2: both flags are advised" same set "$(advised advice "$2")"
	python3 -m dmcrypt_advise --yes --key-file passphrase --apply "$2"
	check "$2: --apply sets them" same "no_read_workqueue no_write_workqueue" "$(flags_of "$2")"
	check "$2: and stores them" same "no-read-workqueue no-write-workqueue" "$(flags_stored "$1")"
	check "$2: nothing remains to do" same "nothing to do" "$(advised advice "$2")"
	python3 -m dmcrypt_advise --yes --key-file passphrase --undo "$2"
	check "$2: --undo takes them back" same "" "$(flags_of "$2")"
	check "$2: also in the header" same "(no flags)" "$(flags_stored "$1")"
}

step() {
	case $1 in
	install)
		original_is_loaded
		check "the package is installed" install_package
		check "after a reboot the patched module is loaded" after_reboot "$kernel" '[^ ]*-inline'
		check "the distribution's module is still installed" compgen -G "/lib/modules/$kernel/kernel/drivers/md/dm-crypt.ko*"
		;;
	patched)
		patched_is_loaded
		;;
	kselftests)
		kselftests
		;;
	remove)
		check "the package is removed" dpkg --purge dmcrypt-dkms
		for place in "/lib/modules/*/updates/drivers/md/*" /var/lib/dkms/dmcrypt-dkms /var/lib/dmcrypt-dkms \
			"/boot/*.dmcrypt-dkms" "/usr/src/dmcrypt-dkms*"; do
			check "$place does not exist" fails exists "$place"
		done
		;;
	original)
		original_is_loaded
		;;
	lockdown)
		check "the kernel is locked down" grep -F '[integrity]' /sys/kernel/security/lockdown
		;;
	refused)
		original_is_loaded
		check "the package is installed" install_package
		check "after a reboot the distribution's module is loaded" after_reboot "$kernel" original
		check "with the reason" grep -q 'mokutil --import /var/lib/dkms/mok.pub' "/var/lib/dmcrypt-dkms/$kernel"
		check "the key is imported" import_key
		;;
	enrolled)
		original_is_loaded
		check "the key is enrolled" grep -q 'already enrolled' <(mokutil --test-key /var/lib/dkms/mok.pub 2>&1)
		check "the module is installed for the running kernel" dmcrypt-dkms install "$kernel"
		check "after a reboot the patched module is loaded" after_reboot "$kernel" '[^ ]*-inline'
		;;
	unknown_key)
		check "the kernel is not locked down" grep -F '[none]' /sys/kernel/security/lockdown
		check "status shows the effect of Secure Boot" grep -q '^with Secure Boot the patched module would not load' <(status)
		;;
	imported)
		check "the key is imported" import_key
		;;
	early)
		check "a later release arrives before the patched module ran" install_kernel trixie-security
		check "it keeps the distribution's module" after_reboot "$(newest 6.12)" original
		check "with the reason" grep -q 'has not run' "/var/lib/dmcrypt-dkms/$(newest 6.12)"
		;;
	running)
		check "the module is installed for the running kernel" dmcrypt-dkms install "$kernel"
		check "after a reboot the patched module is loaded" after_reboot "$kernel" '[^ ]*-inline'
		;;
	series)
		check "a kernel of another supported series arrives" install_kernel trixie-backports
		check "after a reboot the patched module is loaded" after_reboot "$(newest 7.3)" '[^ ]*-inline'
		;;
	unknown)
		release=$(dpkg-deb -f /var/cache/trixie-security/linux-image-6.*.deb Version | cut -d . -f 3 | cut -d - -f 1)
		sed -i "/^highest-7/d; s/^\(highest-6.12 :=\) .*/\1 $((release - 1))/" /usr/src/dmcrypt-dkms-*/kernels.mk
		check "an unknown release arrives" install_kernel trixie-security
		check "it keeps the distribution's module" after_reboot "$(newest 6.12)" original
		check "with the reason" grep -q "up to .$((release - 1)), not .$release" "/var/lib/dmcrypt-dkms/$(newest 6.12)"
		check "an unknown series arrives" install_kernel trixie-backports
		check "it keeps the distribution's module" after_reboot "$(newest 7.3)" original
		check "with the reason" grep -q 'has no dm-crypt for Linux 7.3' "/var/lib/dmcrypt-dkms/$(newest 7.3)"
		;;
	broken)
		for source in /usr/src/dmcrypt-dkms-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		check "a kernel arrives for which the module does not build" install_kernel trixie-security
		check "it has an initramfs" [ -e "/boot/initrd.img-$(newest 6.12)" ]
		check "after a reboot the distribution's module is loaded" after_reboot "$(newest 6.12)" original
		check "with the reason" grep -q 'dkms could not build it' "/var/lib/dmcrypt-dkms/$(newest 6.12)"
		;;
	full)
		before=$(sha256sum <"/boot/initrd.img-$kernel")
		dd if=/dev/zero of=/boot/full bs=64k 2>/dev/null
		check "the package is installed, with a full /boot" install_package
		check "the initramfs is the same" same "$before" "$(sha256sum <"/boot/initrd.img-$kernel")"
		check "after a reboot the distribution's module is loaded" after_reboot "$kernel" original
		check "with the reason" grep -q 'no initramfs could be made' "/var/lib/dmcrypt-dkms/$kernel"
		;;
	unfinished)
		for source in /usr/src/dmcrypt-dkms-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		dd if=/dev/zero of=/boot/full bs=64k 2>/dev/null
		check "it does not build again" fails dmcrypt-dkms install "$kernel"
		check "the state says that the distribution's module is not back" grep -q '^unfinished: ' "/var/lib/dmcrypt-dkms/$kernel"
		check "the package is not removed, with a full /boot" fails dpkg --purge dmcrypt-dkms
		rm /boot/full
		check "with free space it is removed" dpkg --purge dmcrypt-dkms
		;;
	upgrade)
		check "a later release arrives" install_kernel trixie-security
		check "after a reboot the patched module is loaded, which ran already" after_reboot "$(newest 6.12)" '[^ ]*-inline'
		check "a package of the next version is made" next_package
		check "it is installed" dpkg -i ./next.deb
		check "after a reboot the next version is loaded" after_reboot "$kernel" 99-inline
		check "the other kernel has the distribution's module, to fall back on" after_reboot "$(newest 6.12)" original
		;;
	data_only)
		dpkg --purge cryptsetup-initramfs && update-initramfs -u -k all
		check "the initramfs is listed" sh -c "lsinitramfs /boot/initrd.img-$kernel >listed && grep -q modules listed"
		check "without cryptsetup it holds no dm-crypt" fails grep -q dm-crypt listed
		sed -i.debian 's/Debian/Other/' "/lib/modules/$kernel/build/include/generated/package.h"
		check "another distribution's kernel is rejected" fails dmcrypt-dkms install "$kernel"
		check "with the reason" grep -q "knows Debian's kernels" "/var/lib/dmcrypt-dkms/$kernel"
		mv "/lib/modules/$kernel/build/include/generated/package.h"{.debian,}
		check "the module is installed for the running kernel" dmcrypt-dkms install "$kernel"
		dd if=/dev/zero of=/full bs=1M count=$(($(df --output=avail -m / | tail -n 1) - 50)) 2>/dev/null
		check "the package is not removed without free space for depmod" fails dpkg --purge dmcrypt-dkms
		check "the state says that the distribution's module is not back" grep -q '^unfinished: ' "/var/lib/dmcrypt-dkms/$kernel"
		rm /full
		check "with free space it is removed" dpkg --purge dmcrypt-dkms
		check "no file of the package exists" fails compgen -G "/lib/modules/*/updates/drivers/md/*"
		;;
	advice)
		check "advise finds the flags in the initramfs" \
			same "['no_read_workqueue', 'no_write_workqueue']" "$(advised initramfs)"
		check "nothing disagrees" same "[]" "$(advised conflicts)"
		sed -i 's/,no-read-workqueue,no-write-workqueue//' /etc/crypttab
		older=$(advised conflicts)
		again=$(sed -n "s/^\['the initramfs has .* no_write_workqueue, .*: \(.*\)'\]$/\1/p" <<<"$older")
		check "it says that the initramfs is older than crypttab: $older" [ "$again" ]
		check "'$again' makes a new one" $again
		check "in which it finds none" same "[]" "$(advised initramfs)"
		check "advise names the flags that the next boot lacks" \
			grep -q 'stored nowhere.*no_read_workqueue.*no_write_workqueue' <<<"$(advised conflicts)"
		;;
	layers)
		before=$(sha256sum </etc/crypttab)
		printf 'not a secret' >passphrase
		check "a volume is made on NVMe" volume_on /dev/nvme0n1 fast
		advice_is_followed /dev/nvme0n1 fast "['nvme0n1']"
		cryptsetup close fast && wipefs -qa /dev/nvme0n1
		check "a RAID is made of two" mdadm --create --quiet --run --level=1 --metadata=1.2 --assume-clean \
			--raid-devices=2 /dev/md0 /dev/nvme0n1 /dev/nvme1n1
		check "a volume is made on it" volume_on /dev/md0 safe
		check "LVM and a file system are made on that" sh -c "vgcreate -q group /dev/mapper/safe &&
			lvcreate -q -y -l 100%FREE -n home group && mke2fs -q -t ext4 /dev/group/home && mount /dev/group/home /mnt"
		check "advise names LVM and the file system" grep -q 'for /mnt (ext4) on group-home' <<<"$(python3 -m dmcrypt_advise)"
		advice_is_followed /dev/md0 safe "['nvme0n1', 'nvme1n1']"
		check "crypttab is the same" same "$before" "$(sha256sum </etc/crypttab)"
		;;
	interrupted)
		for source in /usr/src/dmcrypt-dkms-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		dmcrypt-dkms install "$kernel" &
		until exists "/boot/initrd.img-$kernel.dmcrypt-dkms"; do sleep 0.01; done
		kill -KILL $!
		wait $!
		check "the build fails, and the program is killed while the distribution's module returns" same 137 $?
		check "the patched module is no longer installed" fails exists "/lib/modules/$kernel/updates/drivers/md/dm-crypt.ko*"
		check "the state says that the distribution's module is not back" grep -q '^unfinished: ' "/var/lib/dmcrypt-dkms/$kernel"
		check "it does not build again" fails dmcrypt-dkms install "$kernel"
		check "after a reboot the distribution's module is loaded" after_reboot "$kernel" original
		;;
	cut_*)
		case $1 in
		cut_building) cut_when exists "/var/lib/dkms/dmcrypt-dkms/*/build/dm-crypt.o" & ;;
		cut_placed) cut_when is_on_disk "/lib/modules/*/updates/drivers/md/dm-crypt.ko*" & ;;
		cut_initramfs) cut_when is_on_disk "/boot/initrd.img-*.dmcrypt-dkms" & ;;
		cut_replaced) cut_when grep -qs -- '-inline: ' "/var/lib/dmcrypt-dkms/$kernel" & ;;
		esac
		install_package
		;;
	left_placed)
		check "the module exists" exists "/lib/modules/*/updates/drivers/md/dm-crypt.ko*"
		;;
	left_initramfs)
		check "an incomplete initramfs exists" [ -s "$(compgen -G "/boot/initrd.img-*.dmcrypt-dkms")" ]
		;;
	go_on)
		check "dpkg goes on" dpkg --configure -a
		check "after a reboot the patched module is loaded" after_reboot "$kernel" '[^ ]*-inline'
		;;
	*)
		check "the step $1 exists" false
		;;
	esac
}

for each in "$@"; do
	echo "begin of $each"
	step "$each"
	echo "end of $each"
done
