// SPDX-License-Identifier: GPL-2.0
/*
 * For measuring only: one kernel thread or several submit bios of one size, each with one
 * or several in flight.
 *
 * First the module writes and reads every mapping in all sizes. It compares the data on the
 * disk with those of the library's generic code, and the data read with those written. Then
 * each round takes one sample of each mapping; the order changes from round to round.
 * /proc/sectors has a line for each sample: round, mapping, read or write, bytes of a request,
 * threads, requests in flight of each thread, bytes in all, nanoseconds by the clock,
 * nanoseconds of CPU time of all CPUs.
 *
 * "library" and "api" are the cipher alone, sector by sector on the same pages, through the
 * AES library and through the crypto API. A mapping "linear" is the device mapper alone;
 * "verity" can only be read, and is not compared.
 */
#include <crypto/aes-xts.h>
#include <crypto/skcipher.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/bottom_half.h>
#include <linux/cgroup.h>
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
#include <linux/workqueue.h>
#include <asm/fpu/api.h>

#define MOST 16 /* mappings */
#define LARGEST SZ_1M
#define REGION SZ_4M /* of the disk, which each thread reads or writes repeatedly */
#define PAGES (LARGEST / PAGE_SIZE)
#define THREADS 2
#define DEEPEST 32

static char *mapping[MOST];
static int mappings;
module_param_array(mapping, charp, &mappings, 0);
MODULE_PARM_DESC(mapping, "names below /dev/mapper");
static char *disk = "/dev/ram0";
module_param(disk, charp, 0);
MODULE_PARM_DESC(disk, "the disk below the mappings");
static char *key = "";
module_param(key, charp, 0);
MODULE_PARM_DESC(key, "in hexadecimal digits; without a key nothing is encrypted");
static int sector = 512;
module_param(sector, int, 0);
static int rounds = 61;
module_param(rounds, int, 0);
static char *cipher = "xts(aes)";
module_param(cipher, charp, 0);
MODULE_PARM_DESC(cipher, "the name in the crypto API; the library is measured with AES only");
static int threads[MOST] = { 1 }, depth[MOST] = { 1 };
static int loads = 1, deepest;
module_param_array(threads, int, &loads, 0);
module_param_array(depth, int, &loads, 0);
MODULE_PARM_DESC(depth, "requests in flight of each thread, a value for each value of threads");
static int span;
module_param(span, int, 0);
MODULE_PARM_DESC(span, "milliseconds of a sample; 0: the time of a few MiB");
static bool softirq;
module_param(softirq, bool, 0);
MODULE_PARM_DESC(softirq, "the disk completes in softirq: let it do so at once, and not in ksoftirqd");

static const int sizes[] = { SZ_4K, SZ_64K, SZ_1M };

struct subject {
	const char *name;
	struct file *file; /* NULL: the cipher alone */
};

static struct subject subjects[MOST + 3];
static int count;

static bool read_only(const char *name)
{
	return !strcmp(name, "verity");
}

struct slot { /* a request in flight */
	struct bio bio;
	struct bio_vec vecs[PAGES];
	struct page *pages[PAGES];
	struct completion done;
	blk_status_t status;
};

static struct slot slots[THREADS][DEEPEST];
static struct page **pages = slots[0][0].pages;
static DECLARE_COMPLETION(worked);
static int result;
static char *text;
static size_t used, room;

static struct aes_xts_key *xts;
static bool aes;
static u8 raw_key[2 * AES_MAX_KEY_SIZE];
static int key_size;
static struct crypto_skcipher *tfm;
static struct skcipher_request *request;

long syscall(long number, ...); /* the host's, which User-Mode Linux exports */

static int host_threads[NR_CPUS]; /* the host's thread number of each CPU */

static void know_host_thread(void *unused)
{
	host_threads[smp_processor_id()] = syscall(186 /* gettid */);
}

/*
 * CPU time of all CPUs, without that of other processes of the host. The host's clock of the
 * complete process would be late by up to a tick for each thread except the caller's.
 */
static u64 cpu_ns(void)
{
	struct {
		s64 seconds, nanoseconds;
	} spent;
	u64 sum = 0;
	int cpu;

	for_each_online_cpu(cpu) {
		syscall(228 /* clock_gettime */, ~(long)host_threads[cpu] << 3 | 6 /* time of a thread */, &spent);
		sum += spent.seconds * NSEC_PER_SEC + spent.nanoseconds;
	}
	return sum;
}

static void ended(struct bio *bio)
{
	struct slot *slot = container_of(bio, struct slot, bio);

	slot->status = bio->bi_status;
	complete(&slot->done);
}

static void submit(struct slot *slot, struct file *file, bool write, int size, u64 at)
{
	int i;

	bio_init(&slot->bio, file_bdev(file), slot->vecs, PAGES,
		 write ? REQ_OP_WRITE | REQ_SYNC | REQ_IDLE : REQ_OP_READ);
	slot->bio.bi_iter.bi_sector = at >> SECTOR_SHIFT;
	for (i = 0; i < size / PAGE_SIZE; i++)
		__bio_add_page(&slot->bio, slot->pages[i], PAGE_SIZE, 0);
	slot->bio.bi_end_io = ended;
	reinit_completion(&slot->done);
	/* A disk completes reads in softirq, a RAM disk where they are submitted. */
	if (!write || softirq)
		local_bh_disable();
	submit_bio(&slot->bio);
	if (!write || softirq)
		local_bh_enable();
}

static int wait(struct slot *slot)
{
	wait_for_completion_io(&slot->done);
	return blk_status_to_errno(slot->status);
}

static void set_tweak(__le64 tweak[4], u64 at)
{
	memset(tweak, 0, 4 * sizeof(*tweak));
	tweak[0] = cpu_to_le64(at >> SECTOR_SHIFT);
}

static int cipher_alone(bool library, bool write, int size, u64 at)
{
	__le64 tweak[4]; /* Adiantum has an IV of 32 bytes */
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
	submit(&slots[0][0], subject->file, write, size, at);
	return wait(&slots[0][0]);
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

/* Check that subject writes the data that the generic code writes, and that it reads them back. */
static int proved(const struct subject *subject, int size, u64 at)
{
	bool encrypted = key_size && strcmp(subject->name, "linear");
	u8 *plain = vmalloc(size), *expected = vmalloc(size);
	__le64 tweak[4]; /* Adiantum has an IV of 32 bytes */
	int i, r = -ENOMEM;

	if (!plain || !expected)
		goto out;
	get_random_bytes(plain, size);
	memcpy(expected, plain, size);
	fpu_forbidden = true;
	for (i = 0; i < size && encrypted; i += sector) {
		set_tweak(tweak, at + i);
		if (aes)
			aes_xts_encrypt(expected + i, expected + i, sector, (u8 *)tweak, xts, false);
	}
	fpu_forbidden = false;
	fill(plain, size);
	if (encrypted && !aes) { /* this one is generic anyway */
		r = cipher_alone(false, true, size, at);
		for (i = 0; i < size; i += PAGE_SIZE)
			memcpy(expected + i, page_address(pages[i / PAGE_SIZE]), PAGE_SIZE);
		fill(plain, size);
	}
	r = one(subject, true, size, at);
	if (!r && subject->file) {
		r = same(plain, size); /* a write must not change its data */
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
		for (i = 0; i < ARRAY_SIZE(sizes) && !read_only(subjects[s].name); i++)
			for (at = 0; at <= REGION - sizes[i] && !r; at += max_t(u64, sizes[i], SZ_512K) + (sizes[i] < SZ_1M ? SZ_4K : 0))
				r = proved(&subjects[s], sizes[i], at);
	return r;
}

/* The work of each thread in a sample: at least so many requests, and until this time. */
static struct {
	const struct subject *subject;
	bool write;
	int size, depth, least;
	u64 until;
} work;
static struct work_struct helpers[THREADS];
static int results[THREADS], passed[THREADS];

/* Wait for the requests in the order in which they were submitted. */
static void pass(int thread)
{
	u64 region = max_t(u64, REGION, work.depth * work.size);
	static u64 places[THREADS];
	u64 *at = &places[thread];
	int i, r = 0, error;

	for (i = 0; i < work.least || ktime_get_ns() < work.until; i++) {
		struct slot *slot = &slots[thread][i % work.depth];

		if (*at + work.size > region)
			*at = 0;
		if (!work.subject->file) {
			r = r ?: one(work.subject, work.write, work.size, *at);
		} else {
			error = i < work.depth ? 0 : wait(slot);
			r = r ?: error;
			submit(slot, work.subject->file, work.write, work.size, thread * deepest * LARGEST + *at);
		}
		*at += work.size;
	}
	passed[thread] = i;
	for (i = 0; i < work.depth && work.subject->file; i++) {
		error = wait(&slots[thread][i]);
		r = r ?: error;
	}
	results[thread] = r;
}

static void help(struct work_struct *helper)
{
	pass(helper - helpers);
}

static int sample(int round, int s, bool write, int size, int load)
{
	int bytes = max(size, size == SZ_4K ? SZ_512K : SZ_2M), requests, i, r;
	u64 elapsed, spent;

	work.subject = &subjects[s];
	work.write = write;
	work.size = size;
	work.depth = depth[load];
	work.least = span ? 2 * depth[load] : bytes / size;
	spent = cpu_ns();
	elapsed = ktime_get_ns();
	work.until = span ? elapsed + span * NSEC_PER_MSEC : 0;
	for (i = 1; i < threads[load]; i++)
		queue_work(system_dfl_wq, &helpers[i]);
	pass(0);
	for (i = 1; i < threads[load]; i++)
		flush_work(&helpers[i]);
	elapsed = ktime_get_ns() - elapsed;
	spent = cpu_ns() - spent;
	for (i = requests = r = 0; i < threads[load]; i++) {
		requests += passed[i];
		r = r ?: results[i];
	}
	if (round >= 0) /* the first warms up */
		used += scnprintf(text + used, room - used, "%d %s %s %d %d %d %llu %llu %llu\n", round,
				  subjects[s].name, write ? "write" : "read", size, threads[load], depth[load],
				  (u64)requests * size, elapsed, spent);
	return r;
}

static int measure(void)
{
	int round, i, write, load, s, r = 0;

	for (round = -1; round < rounds; round++)
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			for (write = 0; write < 2; write++)
				for (load = 0; load < loads; load++)
					for (s = 0; s < count && !r; s++) {
						/* Begin with another one each time, every second time backwards. */
						int turn = (s + (round + 1) / 2) % count;

						turn = round & 1 ? count - 1 - turn : turn;
						if ((subjects[turn].file || !load) && !(write && read_only(subjects[turn].name)))
							r = sample(round, turn, write, sizes[i], load);
						cond_resched();
					}
	return r;
}

static int add(const char *name, const char *path)
{
	struct subject *subject = &subjects[count];

	subject->name = name;
	if (path) {
		subject->file = bdev_file_open_by_path(path, BLK_OPEN_READ | (read_only(name) ? 0 : BLK_OPEN_WRITE),
						       NULL, NULL);
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
	int i, t, d, r;

	for (i = 0; i < loads; i++)
		if (threads[i] < 1 || threads[i] > THREADS || depth[i] < 1 || depth[i] > DEEPEST)
			return -EINVAL;
	for (i = 0; i < loads; i++)
		deepest = max(deepest, depth[i]);
	room = (size_t)(rounds + 1) * (mappings + 3) * ARRAY_SIZE(sizes) * 2 * loads * 100;
	text = vmalloc(room);
	xts = kzalloc_obj(*xts);
	if (!text || !xts)
		return -ENOMEM;
	for (t = 0; t < THREADS; t++) {
		for (d = 0; d < deepest; d++) {
			init_completion(&slots[t][d].done);
			for (i = 0; i < PAGES; i++) {
				slots[t][d].pages[i] = alloc_page(GFP_KERNEL);
				if (!slots[t][d].pages[i])
					return -ENOMEM;
			}
		}
		INIT_WORK(&helpers[t], help);
	}
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
	aes = !strcmp(cipher, "xts(aes)");
	r = aes ? aes_xts_preparekey(xts, raw_key, key_size, 0) : 0;
	if (r)
		return r;
	tfm = crypto_alloc_skcipher(cipher, 0, CRYPTO_ALG_ASYNC);
	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	request = skcipher_request_alloc(tfm, GFP_KERNEL);
	r = request ? crypto_skcipher_setkey(tfm, raw_key, key_size) : -ENOMEM;
	return r ?: add("api", NULL) ?: aes ? add("library", NULL) : 0;
}

static int shown(struct seq_file *seq, void *v)
{
	seq_write(seq, text, used);
	return 0;
}

static void tear_down(void)
{
	int i, t, d;

	for (i = 0; i < count; i++)
		if (subjects[i].file)
			bdev_fput(subjects[i].file);
	for (t = 0; t < THREADS; t++)
		for (d = 0; d < DEEPEST; d++)
			for (i = 0; i < PAGES; i++)
				if (slots[t][d].pages[i])
					__free_page(slots[t][d].pages[i]);
	skcipher_request_free(request);
	if (!IS_ERR_OR_NULL(tfm))
		crypto_free_skcipher(tfm);
	kfree_sensitive(xts);
	vfree(text);
}

/*
 * A kernel thread, as a worker or io_uring's: kernel_fpu_begin() has nothing to save for it.
 * Its bios belong to the cgroup of the program that loads the module.
 */
static int all(void *css)
{
#ifdef CONFIG_BLK_CGROUP
	kthread_associate_blkcg(css);
#endif
	result = prove() ?: measure();
#ifdef CONFIG_BLK_CGROUP
	kthread_associate_blkcg(NULL);
	css_put(css);
#endif
	kthread_complete_and_exit(&worked, 0);
}

static int __init sectors_init(void)
{
	struct task_struct *worker;
	void *css = NULL;

	on_each_cpu(know_host_thread, NULL, 1);
	result = set_up();
	if (!result) {
#ifdef CONFIG_BLK_CGROUP
		css = task_get_css(current, io_cgrp_id);
#endif
		worker = kthread_run(all, css, "sectors");
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
