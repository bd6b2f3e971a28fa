#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Set up the guest and run a script: enter.sh SCRIPT
#
# The host's root is read-only here. Scripts write to tmpfs, or to $RESULTS, a
# directory shared with the host. The host prints their output, which goes to a file,
# as it arrives; shell.sh uses the console.

share=/run/guest
input=/run/input
modules=/run/modules

export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin
export HOME=/dev/shm TMPDIR=/dev/shm LC_ALL=C.UTF-8
export INPUT=$input RESULTS=$share/results
[ "$1" = shell.sh ] || exec </dev/null >"$share/output" 2>&1
umask 077

# The shared directory is not cached: run from memory. Reading one file takes a fraction of the time.
mkdir "$input"
tar -xf "$share/input.tar" -C "$input" --no-same-owner

# The kernel's own path to modprobe must find the modules too.
release=$(uname -r)
mkdir -p "$modules/lib/modules/$release"
cp "$input"/modules/*.ko "$modules/lib/modules/$release/"
depmod -b "$modules" "$release" 2>/dev/null
export MODPROBE_OPTIONS="-d $modules"
printf '#!/bin/sh\nexec modprobe -d %s "$@"\n' "$modules" >/run/modprobe
chmod 755 /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe

# What a distribution's initramfs loads: AES instructions where the CPU has them, and the device mapper.
modprobe aesni_intel 2>/dev/null
modprobe dm-mod 2>/dev/null

# No udev, which opens every new device at any time. Without it, the tools of the device
# mapper make their nodes.
export DM_DISABLE_UDEV=1

# shellcheck source=/dev/null
. "$input/environment"
cd /dev/shm || exit 1
"$input/guest/$1"
echo $? >"$share/status.part"
mv "$share/status.part" "$share/status"
