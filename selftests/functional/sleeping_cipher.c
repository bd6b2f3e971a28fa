// SPDX-License-Identifier: GPL-2.0
/*
 * A cipher for tests that sleeps in the context of its caller. It reads CRYPTO_TFM_REQ_MAY_BACKLOG
 * as "may sleep", as the driver of Broadcom's SPU does, and has the flags of that driver. In
 * interrupts it warns, so that kernels without debug options show the defect, too.
 *
 * "Encryption" is XOR with the key and the IV. It protects nothing.
 */
#include <crypto/internal/skcipher.h>
#include <crypto/scatterwalk.h>
#include <linux/bug.h>
#include <linux/crypto.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/slab.h>

#define KEY_SIZE 32
#define IV_SIZE 16

#ifndef CRYPTO_ALG_ALLOCATES_MEMORY /* before Linux 5.9 */
#define CRYPTO_ALG_ALLOCATES_MEMORY 0
#endif

static char *driver = "cbc-sleeping";
module_param(driver, charp, 0444);
MODULE_PARM_DESC(driver, "name of the driver");

static bool kern_driver_only = true;
module_param(kern_driver_only, bool, 0444);
MODULE_PARM_DESC(kern_driver_only, "set CRYPTO_ALG_KERN_DRIVER_ONLY");

static bool async;
module_param(async, bool, 0444);
MODULE_PARM_DESC(async, "set CRYPTO_ALG_ASYNC");

static int sleeping_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int len)
{
	memcpy(crypto_skcipher_ctx(tfm), key, len);
	return 0;
}

static int sleeping_crypt(struct skcipher_request *req)
{
	bool may_sleep = req->base.flags & CRYPTO_TFM_REQ_MAY_BACKLOG;
	const u8 *key = crypto_skcipher_ctx(crypto_skcipher_reqtfm(req));
	const u8 *iv = req->iv;
	unsigned int i;
	u8 *data;

	WARN_ON_ONCE(may_sleep && in_interrupt());
	data = kmalloc(req->cryptlen, may_sleep ? GFP_KERNEL : GFP_ATOMIC);
	if (!data)
		return -ENOMEM;

	scatterwalk_map_and_copy(data, req->src, 0, req->cryptlen, 0);
	for (i = 0; i < req->cryptlen; i++)
		data[i] ^= key[i % KEY_SIZE] ^ iv[i % IV_SIZE];
	scatterwalk_map_and_copy(data, req->dst, 0, req->cryptlen, 1);
	kfree(data);
	return 0;
}

static struct skcipher_alg sleeping = {
	.base.cra_name = "cbc(sleeping)",
	.base.cra_blocksize = IV_SIZE,
	.base.cra_ctxsize = KEY_SIZE,
	.base.cra_priority = 1,
	.base.cra_module = THIS_MODULE,
	.min_keysize = KEY_SIZE,
	.max_keysize = KEY_SIZE,
	.ivsize = IV_SIZE,
	.setkey = sleeping_setkey,
	.encrypt = sleeping_crypt,
	.decrypt = sleeping_crypt,
};

static int __init sleeping_init(void)
{
	strscpy(sleeping.base.cra_driver_name, driver, CRYPTO_MAX_ALG_NAME);
	sleeping.base.cra_flags = CRYPTO_ALG_ALLOCATES_MEMORY |
				  (kern_driver_only ? CRYPTO_ALG_KERN_DRIVER_ONLY : 0) |
				  (async ? CRYPTO_ALG_ASYNC : 0);
	return crypto_register_skcipher(&sleeping);
}

static void __exit sleeping_exit(void)
{
	crypto_unregister_skcipher(&sleeping);
}

module_init(sleeping_init);
module_exit(sleeping_exit);
MODULE_DESCRIPTION("cipher that sleeps, for tests of dm-crypt");
MODULE_LICENSE("GPL");
