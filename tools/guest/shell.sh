#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# An interactive shell on the guest's console, with dm-crypt loaded and a RAM disk.

modprobe dm-crypt || exit 1
modprobe brd rd_nr=1 rd_size=262144
export PATH="$CRYPTSETUP_PREFIX/sbin:$PATH" PS1='guest:\w# '
stty rows "$LINES" cols "$COLUMNS"
cat <<END

Linux $(uname -r), dm-crypt $(dmsetup targets | awk '$1 == "crypt" { print $2 }'), $(cryptsetup --version | cut -d ' ' -f 1,2)${CRYPTSETUP_PREFIX:+ with its queue}
/dev/ram0 is a RAM disk of 256 MiB. The tests: $INPUT/tests/*/*.sh
The root is read-only; files in $RESULTS remain on the host.
exit ends the guest.

END
exec setsid --ctty --wait bash --norc -i
