#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# What advise says of real mappings, and what its advice does: advise.py, on the host's Python ($PYTHON). The host's
# /etc and /var/lib stay as they are: the guest has its own.

mkdir /run/etc && cp -a /etc/. /run/etc && mount --bind /run/etc /etc || exit 1
mount -t tmpfs tmpfs /var/lib || exit 1
# With one CPU reads may complete in hard interrupts, where no_read_workqueue does nothing on 6.1.
echo 0-1 >/run/cpus && mount --bind /run/cpus /sys/devices/system/cpu/possible || exit 1
mkdir -p /run/cryptsetup
modprobe dm-crypt && modprobe null_blk nr_devices=0 && modprobe cryptd || exit 1
export PYTHONPATH="$INPUT/advise" PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" -S -s "$INPUT/guest/advise.py" "$RESULTS"
