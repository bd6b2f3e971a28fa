#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run advise.py with the host's Python ($PYTHON). The guest has its own /etc, so the host's stays as it is.

mkdir /run/etc && cp -a /etc/. /run/etc && mount --bind /run/etc /etc || exit 1
# On one CPU reads may complete in hard interrupts, where no_read_workqueue has no effect on 6.1.
echo 0-1 >/run/cpus && mount --bind /run/cpus /sys/devices/system/cpu/possible || exit 1
mkdir -p /run/cryptsetup
modprobe dm-crypt && modprobe null_blk nr_devices=0 && modprobe cryptd || exit 1
export PYTHONPATH="$INPUT/advise" PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" -S -s "$INPUT/guest/advise.py" "$RESULTS"
