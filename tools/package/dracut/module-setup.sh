#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# dracut takes all of drivers/md, also the original dm-crypt, although depmod prefers the patched one: remove the former.

# called by dracut
check() {
	compgen -G "${srcmods:?}/updates/drivers/md/dm-crypt.ko*" >/dev/null
}

# called by dracut, after the modules that choose drivers
installkernel() {
	local modules=${initdir:?}/lib/modules/${kernel:?}
	if compgen -G "$modules/updates/drivers/md/dm-crypt.ko*" >/dev/null; then
		rm -f "$modules/kernel/drivers/md/"dm-crypt.ko*
	fi
}
