#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The first program under User-Mode Linux, where virtme-ng's is not: mount what
# the host's root lacks, run enter.sh, end the guest. The kernel's command line
# gives $guest_share and $guest_script.

if [ $$ -ne 1 ]; then
	echo "$0: only for the first program of a guest; on a running machine it would mount over /run and end it" >&2
	exit 1
fi
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=0755 run /run
mount -t tmpfs -o mode=1777 tmp /var/tmp
mount -t configfs configfs /sys/kernel/config
mount -t debugfs debugfs /sys/kernel/debug
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
mkdir /run/guest
mount -t hostfs -o "${guest_share:?}" share /run/guest
/run/guest/input/guest/enter.sh "${guest_script:?}"
# reboot(2) with "power off": not every host has a program for it that works without an init.
perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc)'
