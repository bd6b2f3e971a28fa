// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-crypt, that of one series of kernels, as it is; and what tells it from the kernel's own, when it is loaded.
 * The target's version is what user space goes by, and stays.
 */
#include <linux/device-mapper.h>

static int tell(void);

/* However the driver registers its target: told when that went well. Nobody calls tell(): the build fails. */
#define dm_register_target(target) (dm_register_target(target) ?: tell())

#include DRIVER

static int __init tell(void)
{
	DMINFO("not the kernel's own: from the package dmcrypt-dkms " PACKAGE_VERSION);
	return 0;
}

MODULE_VERSION(PACKAGE_VERSION "-inline");
