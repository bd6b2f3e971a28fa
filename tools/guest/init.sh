#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The init of every guest: mount the file systems that the host's root lacks, run
# enter.sh, end the guest. The kernel's command line sets $guest_script and $guest_share:
# a directory of the host for User-Mode Linux, the tag of a 9p export for QEMU.
#
# virtme-ng's own init also starts a distribution's services, which takes most of a
# minute in QEMU.

if [ $$ -ne 1 ]; then
	echo "$0: only for the first program of a guest; on a running machine it would mount over /run and end it" >&2
	exit 1
fi
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount --all --fstab "${0%/*}/fstab"
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
mkdir /run/guest
case ${guest_share:?} in
/*) mount -t hostfs -o "$guest_share" share /run/guest ;;
*) mount -t 9p -o version=9p2000.L,trans=virtio,access=any,msize=524288 "$guest_share" /run/guest ;;
esac
/run/guest/input/guest/enter.sh "${guest_script:?}"
# reboot(2) with "power off": not every host has a program for it that works without an init.
perl -e 'syscall({aarch64 => 142, s390x => 88}->{$ARGV[0]} // 169, 0xfee1dead, 672274793, 0x4321fedc)' "$(uname -m)"
