#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Steps of the proof of the package, each in a boot of its own, as testing/package_guests.py orders them.
# One line a claim: "ok: ..." or "not ok: ...". A step that gets to its end says so.
set -u
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
kernel=$(uname -r)
trap 'echo "end of this boot"; systemctl poweroff --force' EXIT

claim() {
	local what=$1
	shift
	# What others say may not end its line.
	if "$@"; then printf '\nok: %s\n' "$what"; else printf '\nnot ok: %s\n' "$what"; fi
}
same() { [ "$1" = "$2" ] || { echo "wanted '$1', got '$2'"; return 1; }; }
fails() {
	"$@"
	case $? in 0 | 126 | 127) return 1 ;; esac # a program that is not there has not failed
}
# What is loaded, placed and in the initramfs, as the program itself says it.
status() { dmcrypt-dkms status | tee /dev/stderr; }
after_reboot() {
	status | grep -x "$1: after a reboot \($2\), in the initramfs, and in /lib/modules \1; why: \1: .*" >/dev/null
}

root_is_open_with_the_flags() {
	same "no_read_workqueue no_write_workqueue" \
		"$(dmsetup table root | grep -o 'no_[a-z]*_workqueue' | sort -u | tr '\n' ' ' | sed 's/ $//')"
}
log_is_clean() {
	claim "the log is there" sh -c "dmesg | grep -q 'Linux version'"
	claim "no complaint in the log" fails grep -E 'BUG:|WARNING:|Oops' <(dmesg)
}
ours_is_loaded() {
	claim "the root is open, with both flags" root_is_open_with_the_flags
	claim "the module that is loaded is ours" grep -qx '[^ ]*-inline' /sys/module/dm_crypt/version
	claim "it says so in the log" sh -c "dmesg | grep \"crypt: not the kernel's own\""
	log_is_clean
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
	for base in "/var/cache/$1"/linux-base_*.deb; do # what the kernel pre-depends on
		[ ! -e "$base" ] || dpkg -i "$base"
	done
	dpkg -i "/var/cache/$1"/*.deb
}
# For MokManager, that asks at the next start, for the password, too.
import_key() { yes 'not a secret' | head -n 2 | mokutil --import /var/lib/dkms/mok.pub; }
newest() { find /lib/modules -mindepth 1 -maxdepth 1 -name "$1*" -printf '%f\n' | sort -V | tail -n 1; }
# cut_when COMMAND: the machine restarts at once when that succeeds, and what no disk has yet is lost: a power cut.
cut_when() {
	until "$@"; do sleep 0.01; done
	echo b >/proc/sysrq-trigger
}
exists() { compgen -G "$1" >/dev/null; }
is_on_disk() { exists "$1" && [ -s "$(compgen -G "$1")" ] && sync; }

# advised FIELD [NAME]: what advise says of a mapping, of the root if none is named, as Python writes it.
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
	claim "$2: advise walks down to $3" same "$3" "$(advised disks "$2")"
	claim "$2: says what they are" grep -q "nvme0n1: NVMe, not rotational" <<<"$(python3 -m dmcrypt_advise)"
	claim "$2: both flags are advised" same set "$(advised advice "$2")"
	python3 -m dmcrypt_advise --yes --key-file passphrase --apply "$2"
	claim "$2: --apply sets them" same "no_read_workqueue no_write_workqueue" "$(flags_of "$2")"
	claim "$2: and stores them" same "no-read-workqueue no-write-workqueue" "$(flags_stored "$1")"
	claim "$2: nothing is left to do" same "nothing to do" "$(advised advice "$2")"
	python3 -m dmcrypt_advise --yes --key-file passphrase --undo "$2"
	claim "$2: --undo takes them back" same "" "$(flags_of "$2")"
	claim "$2: also in the header" same "(no flags)" "$(flags_stored "$1")"
}

step() {
	case $1 in
	install)
		stock_is_loaded
		claim "the package is installed" install_package
		claim "after a reboot it is ours" after_reboot "$kernel" '[^ ]*-inline'
		claim "stock is still there, too" compgen -G "/lib/modules/$kernel/kernel/drivers/md/dm-crypt.ko*"
		;;
	ours)
		ours_is_loaded
		;;
	kselftests)
		kselftests
		;;
	remove)
		claim "the package is removed" dpkg --purge dmcrypt-dkms
		for place in "/lib/modules/*/updates/drivers/md/*" /var/lib/dkms/dmcrypt-dkms /var/lib/dmcrypt-dkms \
			"/boot/*.dmcrypt-dkms" "/usr/src/dmcrypt-dkms*"; do
			claim "nothing is left of $place" fails exists "$place"
		done
		;;
	stock)
		stock_is_loaded
		;;
	locked)
		claim "the kernel is locked down" grep -F '[integrity]' /sys/kernel/security/lockdown
		;;
	refused)
		stock_is_loaded
		claim "the package is installed" install_package
		claim "after a reboot it is stock" after_reboot "$kernel" stock
		claim "with the reason" grep -q 'mokutil --import /var/lib/dkms/mok.pub' "/var/lib/dmcrypt-dkms/$kernel"
		claim "the key is imported" import_key
		;;
	enrolled)
		stock_is_loaded
		claim "the key is enrolled" grep -q 'already enrolled' <(mokutil --test-key /var/lib/dkms/mok.pub 2>&1)
		claim "what runs can be installed" dmcrypt-dkms install "$kernel"
		claim "after a reboot it is ours" after_reboot "$kernel" '[^ ]*-inline'
		;;
	unknown_key)
		claim "the kernel is not locked down" grep -F '[none]' /sys/kernel/security/lockdown
		claim "status says what Secure Boot would do" grep -q '^with Secure Boot ours would not load' <(status)
		;;
	imported)
		claim "the key is imported" import_key
		;;
	early)
		claim "a later release arrives before ours has run" install_kernel trixie-security
		claim "it keeps its own" after_reboot "$(newest 6.12)" stock
		claim "with the reason" grep -q 'has not run' "/var/lib/dmcrypt-dkms/$(newest 6.12)"
		;;
	running)
		claim "what runs can be installed" dmcrypt-dkms install "$kernel"
		claim "after a reboot it is ours" after_reboot "$kernel" '[^ ]*-inline'
		;;
	series)
		claim "a kernel of another known series arrives" install_kernel trixie-backports
		claim "after a reboot it is ours" after_reboot "$(newest 7.3)" '[^ ]*-inline'
		;;
	unknown)
		release=$(dpkg-deb -f /var/cache/trixie-security/linux-image-6.*.deb Version | cut -d . -f 3 | cut -d - -f 1)
		sed -i "/^highest-7/d; s/^\(highest-6.12 :=\) .*/\1 $((release - 1))/" /usr/src/dmcrypt-dkms-*/kernels.mk
		claim "a release that is not known arrives" install_kernel trixie-security
		claim "it keeps its own" after_reboot "$(newest 6.12)" stock
		claim "with the reason" grep -q "up to .$((release - 1)), not .$release" "/var/lib/dmcrypt-dkms/$(newest 6.12)"
		claim "a series that is not known arrives" install_kernel trixie-backports
		claim "it keeps its own" after_reboot "$(newest 7.3)" stock
		claim "with the reason" grep -q 'has no dm-crypt for Linux 7.3' "/var/lib/dmcrypt-dkms/$(newest 7.3)"
		;;
	broken)
		for source in /usr/src/dmcrypt-dkms-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		claim "a kernel arrives for which the module cannot be built" install_kernel trixie-security
		claim "it has an initramfs" [ -e "/boot/initrd.img-$(newest 6.12)" ]
		claim "after a reboot it is stock" after_reboot "$(newest 6.12)" stock
		claim "with the reason" grep -q 'dkms could not build it' "/var/lib/dmcrypt-dkms/$(newest 6.12)"
		;;
	full)
		before=$(sha256sum <"/boot/initrd.img-$kernel")
		dd if=/dev/zero of=/boot/full bs=64k 2>/dev/null
		claim "the package is installed, with a full /boot" install_package
		claim "the initramfs is the same" same "$before" "$(sha256sum <"/boot/initrd.img-$kernel")"
		claim "after a reboot it is stock" after_reboot "$kernel" stock
		claim "with the reason" grep -q 'no initramfs could be made' "/var/lib/dmcrypt-dkms/$kernel"
		;;
	unfinished)
		for source in /usr/src/dmcrypt-dkms-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		dd if=/dev/zero of=/boot/full bs=64k 2>/dev/null
		claim "it cannot be built again" fails dmcrypt-dkms install "$kernel"
		claim "that stock is not back is noted" grep -q '^unfinished: ' "/var/lib/dmcrypt-dkms/$kernel"
		claim "the package is not removed, with a full /boot" fails dpkg --purge dmcrypt-dkms
		rm /boot/full
		claim "with room it is" dpkg --purge dmcrypt-dkms
		;;
	upgrade)
		claim "a later release arrives" install_kernel trixie-security
		claim "after a reboot it is ours, which runs" after_reboot "$(newest 6.12)" '[^ ]*-inline'
		claim "a package of the next version is made" next_package
		claim "it is installed" dpkg -i ./next.deb
		claim "after a reboot what runs is the next" after_reboot "$kernel" 99-inline
		claim "the other kernel is stock, to fall back on" after_reboot "$(newest 6.12)" stock
		;;
	data_only)
		dpkg --purge cryptsetup-initramfs && update-initramfs -u -k all
		claim "the initramfs is listed" sh -c "lsinitramfs /boot/initrd.img-$kernel >listed && grep -q modules listed"
		claim "without cryptsetup it holds no dm-crypt" fails grep -q dm-crypt listed
		sed -i.debian 's/Debian/Other/' "/lib/modules/$kernel/build/include/generated/package.h"
		claim "a kernel of others is not taken" fails dmcrypt-dkms install "$kernel"
		claim "with the reason" grep -q "knows Debian's kernels" "/var/lib/dmcrypt-dkms/$kernel"
		mv "/lib/modules/$kernel/build/include/generated/package.h"{.debian,}
		claim "what runs can be installed" dmcrypt-dkms install "$kernel"
		dd if=/dev/zero of=/full bs=1M count=$(($(df --output=avail -m / | tail -n 1) - 50)) 2>/dev/null
		claim "the package is not removed, without room for depmod" fails dpkg --purge dmcrypt-dkms
		claim "that stock is not back is noted" grep -q '^unfinished: ' "/var/lib/dmcrypt-dkms/$kernel"
		rm /full
		claim "with room it is" dpkg --purge dmcrypt-dkms
		claim "nothing of it is left" fails compgen -G "/lib/modules/*/updates/drivers/md/*"
		;;
	advice)
		claim "advise finds the flags in the initramfs" \
			same "['no_read_workqueue', 'no_write_workqueue']" "$(advised initramfs)"
		claim "nothing disagrees" same "[]" "$(advised conflicts)"
		sed -i 's/,no-read-workqueue,no-write-workqueue//' /etc/crypttab
		older=$(advised conflicts)
		again=$(sed -n "s/^\['the initramfs has .* no_write_workqueue, .*: \(.*\)'\]$/\1/p" <<<"$older")
		claim "it says that the initramfs is older than crypttab: $older" [ "$again" ]
		claim "'$again' makes a new one" $again
		claim "in which it finds none" same "[]" "$(advised initramfs)"
		claim "it names what the next boot lacks" \
			grep -q 'stored nowhere.*no_read_workqueue.*no_write_workqueue' <<<"$(advised conflicts)"
		;;
	layers)
		before=$(sha256sum </etc/crypttab)
		printf 'not a secret' >passphrase
		claim "a volume is made on NVMe" volume_on /dev/nvme0n1 fast
		advice_is_followed /dev/nvme0n1 fast "['nvme0n1']"
		cryptsetup close fast && wipefs -qa /dev/nvme0n1
		claim "a RAID is made of two" mdadm --create --quiet --run --level=1 --metadata=1.2 --assume-clean \
			--raid-devices=2 /dev/md0 /dev/nvme0n1 /dev/nvme1n1
		claim "a volume is made on it" volume_on /dev/md0 safe
		claim "LVM and a file system are made on that" sh -c "vgcreate -q group /dev/mapper/safe &&
			lvcreate -q -y -l 100%FREE -n home group && mke2fs -q -t ext4 /dev/group/home && mount /dev/group/home /mnt"
		claim "advise names them" grep -q 'for /mnt (ext4) on group-home' <<<"$(python3 -m dmcrypt_advise)"
		advice_is_followed /dev/md0 safe "['nvme0n1', 'nvme1n1']"
		claim "crypttab is the same" same "$before" "$(sha256sum </etc/crypttab)"
		;;
	interrupted)
		for source in /usr/src/dmcrypt-dkms-*/*/dm-crypt.c; do echo '#error broken on purpose' >>"$source"; done
		dmcrypt-dkms install "$kernel" &
		until exists "/boot/initrd.img-$kernel.dmcrypt-dkms"; do sleep 0.01; done
		kill -KILL $!
		wait $!
		claim "it cannot be built, and is killed while stock returns" same 137 $?
		claim "its module is out already" fails exists "/lib/modules/$kernel/updates/drivers/md/dm-crypt.ko*"
		claim "that stock is not back is noted" grep -q '^unfinished: ' "/var/lib/dmcrypt-dkms/$kernel"
		claim "it cannot be built again" fails dmcrypt-dkms install "$kernel"
		claim "after a reboot it is stock" after_reboot "$kernel" stock
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
		claim "the module is there" exists "/lib/modules/*/updates/drivers/md/dm-crypt.ko*"
		;;
	left_initramfs)
		claim "half an initramfs is there" [ -s "$(compgen -G "/boot/initrd.img-*.dmcrypt-dkms")" ]
		;;
	go_on)
		claim "dpkg goes on" dpkg --configure -a
		claim "after a reboot it is ours" after_reboot "$kernel" '[^ ]*-inline'
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
