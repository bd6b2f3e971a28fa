// SPDX-License-Identifier: GPL-2.0
/*
 * For measuring only: bios of one size at a time, made in the kernel, one in flight.
 *
 * First every mapping is written and read in all sizes: what is on the disk is
 * compared with what the library's generic code makes of the data, what is read with
 * what was written. Then the mappings take turns: one sample of each in a round, in
 * an order that is turned from round to round. /proc/sectors has the samples, a line
 * each: round, what, read or write, bytes a request, bytes in all, nanoseconds of CPU.
 *
 * "library" and "api" are the cipher alone, sector by sector on the same pages,
 * through the AES library and through the crypto API.
 */
#include <crypto/aes-xts.h>
#include <crypto/skcipher.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/hex.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/fpu/api.h>

#define MOST 16 /* mappings */
#define LARGEST SZ_1M
#define REGION SZ_4M /* of the disk, passed through again and again */
#define PAGES (LARGEST / PAGE_SIZE)

static char *mapping[MOST];
static int mappings;
module_param_array(mapping, charp, &mappings, 0);
MODULE_PARM_DESC(mapping, "names below /dev/mapper");
static char *disk = "/dev/ram0";
module_param(disk, charp, 0);
MODULE_PARM_DESC(disk, "what they lie on");
static char *key = "";
module_param(key, charp, 0);
MODULE_PARM_DESC(key, "for aes-xts-plain64, in hexadecimal digits; without it nothing is encrypted");
static int sector = 512;
module_param(sector, int, 0);
static int rounds = 61;
module_param(rounds, int, 0);

static const int sizes[] = { SZ_4K, SZ_64K, SZ_1M };

struct subject {
	const char *name;
	struct file *file; /* NULL: the cipher alone */
};

static struct subject subjects[MOST + 3];
static int count;
static struct page *pages[PAGES];
static DECLARE_COMPLETION(worked);
static int result;
static struct completion done;
static blk_status_t status;
static char *text;
static size_t used, room;

static struct aes_xts_key *xts;
static u8 raw_key[2 * AES_MAX_KEY_SIZE];
static int key_size;
static struct crypto_skcipher *tfm;
static struct skcipher_request *request;

long syscall(long number, ...); /* the host's, which User-Mode Linux exports */

/* CPU time of the kernel's process: not what other processes of the host take meanwhile. */
static u64 cpu_ns(void)
{
	struct {
		s64 seconds, nanoseconds;
	} spent = {};

	syscall(228 /* clock_gettime */, 2 /* CLOCK_PROCESS_CPUTIME_ID */, &spent);
	return spent.seconds * NSEC_PER_SEC + spent.nanoseconds;
}

static void ended(struct bio *bio)
{
	status = bio->bi_status;
	complete(&done);
}

static blk_status_t transfer(struct file *file, enum req_op op, int size, u64 at)
{
	static struct bio_vec vecs[PAGES];
	static struct bio bio;
	int i;

	bio_init(&bio, file_bdev(file), vecs, PAGES, op | (op_is_write(op) ? REQ_SYNC | REQ_IDLE : 0));
	bio.bi_iter.bi_sector = at >> SECTOR_SHIFT;
	for (i = 0; i < size / PAGE_SIZE; i++)
		__bio_add_page(&bio, pages[i], PAGE_SIZE, 0);
	bio.bi_end_io = ended;
	reinit_completion(&done);
	submit_bio(&bio);
	wait_for_completion_io(&done);
	return status;
}

static void set_tweak(__le64 tweak[2], u64 at)
{
	tweak[0] = cpu_to_le64(at >> SECTOR_SHIFT);
	tweak[1] = 0;
}

static int cipher_alone(bool library, bool write, int size, u64 at)
{
	__le64 tweak[2];
	int i, r;

	for (i = 0; i < size; i += sector) {
		u8 *data = page_address(pages[i / PAGE_SIZE]) + i % PAGE_SIZE;

		set_tweak(tweak, at + i);
		if (library) {
			if (write)
				aes_xts_encrypt(data, data, sector, (u8 *)tweak, xts, false);
			else
				aes_xts_decrypt(data, data, sector, (u8 *)tweak, xts, false);
		} else {
			struct scatterlist sg;

			sg_init_marker(&sg, 1);
			sg_set_page(&sg, virt_to_page(data), sector, offset_in_page(data));
			skcipher_request_set_crypt(request, &sg, &sg, sector, tweak);
			r = write ? crypto_skcipher_encrypt(request) : crypto_skcipher_decrypt(request);
			if (r)
				return r;
		}
	}
	return 0;
}

static int one(const struct subject *subject, bool write, int size, u64 at)
{
	if (!subject->file)
		return cipher_alone(subject->name[0] == 'l', write, size, at);
	return blk_status_to_errno(transfer(subject->file, write ? REQ_OP_WRITE : REQ_OP_READ, size, at));
}

static void fill(const u8 *from, int size)
{
	int i;

	for (i = 0; i < size; i += PAGE_SIZE)
		memcpy(page_address(pages[i / PAGE_SIZE]), from + i, PAGE_SIZE);
}

static int same(const u8 *as, int size)
{
	int i;

	for (i = 0; i < size; i += PAGE_SIZE)
		if (memcmp(page_address(pages[i / PAGE_SIZE]), as + i, PAGE_SIZE))
			return -EILSEQ;
	return 0;
}

/* What subject writes is what the generic code makes of it, and it can read it. */
static int proved(const struct subject *subject, int size, u64 at)
{
	u8 *plain = vmalloc(size), *expected = vmalloc(size);
	__le64 tweak[2];
	int i, r = -ENOMEM;

	if (!plain || !expected)
		goto out;
	get_random_bytes(plain, size);
	memcpy(expected, plain, size);
	fpu_forbidden = true;
	for (i = 0; i < size && key_size; i += sector) {
		set_tweak(tweak, at + i);
		aes_xts_encrypt(expected + i, expected + i, sector, (u8 *)tweak, xts, false);
	}
	fpu_forbidden = false;
	fill(plain, size);
	r = one(subject, true, size, at);
	if (!r && subject->file) {
		r = same(plain, size); /* what is written stays as it was */
		if (!r)
			r = one(&subjects[0], false, size, at);
	}
	if (!r)
		r = same(expected, size);
	if (!r) {
		if (subject->file)
			clear_page(page_address(pages[0]));
		r = one(subject, false, size, at) ?: same(plain, size);
	}
out:
	if (r)
		pr_err("sectors: %s, %d bytes at %llu: %pe\n", subject->name, size, at, ERR_PTR(r));
	vfree(plain);
	vfree(expected);
	return r;
}

static int prove(void)
{
	int s, i, r = 0;
	u64 at;

	for (s = 1; s < count; s++)
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			for (at = 0; at <= REGION - sizes[i] && !r; at += max_t(u64, sizes[i], SZ_512K) + (sizes[i] < SZ_1M ? SZ_4K : 0))
				r = proved(&subjects[s], sizes[i], at);
	return r;
}

static int sample(int round, int s, bool write, int size)
{
	int bytes = max(size, size == SZ_4K ? SZ_512K : SZ_2M), todo;
	static u64 at;
	u64 begin;
	int r = 0;

	begin = cpu_ns();
	for (todo = bytes; todo && !r; todo -= size) {
		if (at + size > REGION)
			at = 0;
		r = one(&subjects[s], write, size, at);
		at += size;
	}
	if (round >= 0) /* the first warms up */
		used += scnprintf(text + used, room - used, "%d %s %s %d %d %llu\n", round, subjects[s].name,
				  write ? "write" : "read", size, bytes, cpu_ns() - begin);
	return r;
}

static int measure(void)
{
	int round, i, write, s, r = 0;

	for (round = -1; round < rounds; round++)
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			for (write = 0; write < 2; write++)
				for (s = 0; s < count && !r; s++) {
					/* Another first one each time, and every other time backwards. */
					int turn = (s + (round + 1) / 2) % count;

					r = sample(round, round & 1 ? count - 1 - turn : turn, write, sizes[i]);
					cond_resched();
				}
	return r;
}

static int add(const char *name, const char *path)
{
	struct subject *subject = &subjects[count];

	subject->name = name;
	if (path) {
		subject->file = bdev_file_open_by_path(path, BLK_OPEN_READ | BLK_OPEN_WRITE, NULL, NULL);
		if (IS_ERR(subject->file)) {
			pr_err("sectors: %s: %pe\n", path, subject->file);
			return PTR_ERR(subject->file);
		}
	}
	count++;
	return 0;
}

static int set_up(void)
{
	char path[64];
	int i, r;

	room = (size_t)(rounds + 1) * (mappings + 3) * ARRAY_SIZE(sizes) * 2 * 80;
	text = vmalloc(room);
	xts = kzalloc_obj(*xts);
	if (!text || !xts)
		return -ENOMEM;
	for (i = 0; i < PAGES; i++) {
		pages[i] = alloc_page(GFP_KERNEL);
		if (!pages[i])
			return -ENOMEM;
	}
	init_completion(&done);
	r = add("raw", disk);
	for (i = 0; i < mappings && !r; i++) {
		snprintf(path, sizeof(path), "/dev/mapper/%s", mapping[i]);
		r = add(mapping[i], path);
	}
	key_size = strlen(key) / 2;
	if (r || !key_size)
		return r;
	if (key_size > sizeof(raw_key) || hex2bin(raw_key, key, key_size))
		return -EINVAL;
	r = aes_xts_preparekey(xts, raw_key, key_size, 0);
	if (r)
		return r;
	tfm = crypto_alloc_skcipher("xts(aes)", 0, CRYPTO_ALG_ASYNC);
	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	request = skcipher_request_alloc(tfm, GFP_KERNEL);
	r = request ? crypto_skcipher_setkey(tfm, raw_key, key_size) : -ENOMEM;
	return r ?: add("api", NULL) ?: add("library", NULL);
}

static int shown(struct seq_file *seq, void *v)
{
	seq_write(seq, text, used);
	return 0;
}

static void tear_down(void)
{
	int i;

	for (i = 0; i < count; i++)
		if (subjects[i].file)
			bdev_fput(subjects[i].file);
	for (i = 0; i < PAGES; i++)
		if (pages[i])
			__free_page(pages[i]);
	skcipher_request_free(request);
	if (!IS_ERR_OR_NULL(tfm))
		crypto_free_skcipher(tfm);
	kfree_sensitive(xts);
	vfree(text);
}

/* A kernel thread: kernel_fpu_begin() has nothing to save for it, as in a worker, or io_uring's. */
static int work(void *unused)
{
	result = prove() ?: measure();
	kthread_complete_and_exit(&worked, 0);
}

static int __init sectors_init(void)
{
	struct task_struct *worker;

	result = set_up();
	if (!result) {
		worker = kthread_run(work, NULL, "sectors");
		result = PTR_ERR_OR_ZERO(worker);
	}
	if (!result)
		wait_for_completion(&worked);
	if (!result && !proc_create_single("sectors", 0444, NULL, shown))
		result = -ENOMEM;
	if (result)
		tear_down();
	return result;
}

static void __exit sectors_exit(void)
{
	remove_proc_entry("sectors", NULL);
	tear_down();
}

module_init(sectors_init);
module_exit(sectors_exit);
MODULE_DESCRIPTION("Times bios and ciphers, for measuring only");
MODULE_LICENSE("GPL");
