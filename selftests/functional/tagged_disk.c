// SPDX-License-Identifier: GPL-2.0
/*
 * A RAM disk for tests with TAG_SIZE bytes of metadata for each sector, as NVMe disks can have. It
 * takes atomic writes, or with the parameter "zoned" has zones that must be written in order.
 */
#include <linux/blk-mq.h>
#include <linux/module.h>
#include <linux/version.h>

/* In older kernels the interfaces are others, or there are none. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0) && defined(CONFIG_BLK_DEV_ZONED) && \
	defined(CONFIG_BLK_DEV_INTEGRITY)

#include <linux/blk-integrity.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

#define TAG_SIZE 64
#define ZONE 2048 /* sectors */
#define ZONES 4
#define SECTORS (ZONE * ZONES)

static bool zoned;
module_param(zoned, bool, 0444);
MODULE_PARM_DESC(zoned, "the disk is zoned");

static DEFINE_MUTEX(lock); /* for data, tags and write_pointers */
static u8 *data, *tags;
static sector_t write_pointers[ZONES];
static struct gendisk *disk;
static struct blk_mq_tag_set requests;

static void copy(u8 *place, struct bio_vec *vec, bool write)
{
	if (write)
		memcpy_from_bvec(place, vec);
	else
		memcpy_to_bvec(vec, place);
}

static void transfer(struct bio *bio)
{
	u8 *place = data + (bio->bi_iter.bi_sector << SECTOR_SHIFT);
	u8 *tag = tags + bio->bi_iter.bi_sector * TAG_SIZE;
	struct bio_integrity_payload *metadata = bio_integrity(bio);
	struct bvec_iter iter;
	struct bio_vec vec;

	bio_for_each_segment(vec, bio, iter) {
		copy(place, &vec, op_is_write(bio_op(bio)));
		place += vec.bv_len;
	}
	if (!metadata)
		return;
	bip_for_each_vec(vec, metadata, iter) {
		copy(tag, &vec, op_is_write(bio_op(bio)));
		tag += vec.bv_len;
	}
}

static blk_status_t handle(struct request *rq)
{
	sector_t sector = blk_rq_pos(rq);
	sector_t *pointer = &write_pointers[min_t(sector_t, sector / ZONE, ZONES - 1)];
	struct bio *bio;

	switch (req_op(rq)) {
	case REQ_OP_WRITE:
		if (zoned && *pointer != sector)
			return BLK_STS_IOERR;
		WRITE_ONCE(*pointer, sector + blk_rq_sectors(rq));
		fallthrough;
	case REQ_OP_READ:
		__rq_for_each_bio(bio, rq)
			transfer(bio);
		return BLK_STS_OK;
	case REQ_OP_ZONE_RESET:
		WRITE_ONCE(*pointer, sector);
		return BLK_STS_OK;
	default:
		return BLK_STS_NOTSUPP;
	}
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *queued)
{
	blk_status_t status;

	blk_mq_start_request(queued->rq);
	mutex_lock(&lock);
	status = handle(queued->rq);
	mutex_unlock(&lock);
	blk_mq_end_request(queued->rq, status);
	return BLK_STS_OK;
}

static int report_zones(struct gendisk *reported, sector_t sector, unsigned int number,
			struct blk_report_zones_args *args)
{
	unsigned int first = sector / ZONE, i;
	int error;

	for (i = 0; i < number && first + i < ZONES; i++) {
		struct blk_zone zone = {
			.start = (first + i) * ZONE,
			.len = ZONE,
			.capacity = ZONE,
			.wp = READ_ONCE(write_pointers[first + i]),
			.type = BLK_ZONE_TYPE_SEQWRITE_REQ,
			.cond = BLK_ZONE_COND_CLOSED,
		};

		if (zone.wp == zone.start)
			zone.cond = BLK_ZONE_COND_EMPTY;
		else if (zone.wp == zone.start + ZONE)
			zone.cond = BLK_ZONE_COND_FULL;
		error = disk_report_zone(reported, &zone, i, args);
		if (error)
			return error;
	}
	return i;
}

static const struct blk_mq_ops operations = { .queue_rq = queue_rq };
static const struct block_device_operations functions = {
	.owner = THIS_MODULE,
	.report_zones = report_zones,
};

static int __init tagged_init(void)
{
	struct queue_limits limits = {
		.max_hw_sectors = 1024,
		.max_segments = 128,
		.max_integrity_segments = 128,
		.integrity.metadata_size = TAG_SIZE,
		.integrity.interval_exp = SECTOR_SHIFT,
	};
	int error = -ENOMEM, i;

	if (zoned) {
		limits.features = BLK_FEAT_ZONED;
		limits.chunk_sectors = ZONE;
	} else {
		limits.features = BLK_FEAT_ATOMIC_WRITES;
		limits.atomic_write_hw_max = SZ_64K;
		limits.atomic_write_hw_unit_min = SECTOR_SIZE;
		limits.atomic_write_hw_unit_max = SZ_64K;
	}
	for (i = 0; i < ZONES; i++)
		write_pointers[i] = i * ZONE;
	data = vzalloc(SECTORS << SECTOR_SHIFT);
	tags = vzalloc(SECTORS * TAG_SIZE);
	if (!data || !tags)
		goto no_memory;
	requests.ops = &operations;
	requests.nr_hw_queues = 1;
	requests.queue_depth = 16;
	requests.numa_node = NUMA_NO_NODE;
	requests.flags = BLK_MQ_F_BLOCKING;
	error = blk_mq_alloc_tag_set(&requests);
	if (error)
		goto no_memory;
	disk = blk_mq_alloc_disk(&requests, &limits, NULL);
	error = PTR_ERR_OR_ZERO(disk);
	if (error)
		goto no_disk;
	disk->fops = &functions;
	strscpy(disk->disk_name, KBUILD_MODNAME, DISK_NAME_LEN);
	set_capacity(disk, SECTORS);
	if (zoned)
		error = blk_revalidate_disk_zones(disk);
	if (!error)
		error = add_disk(disk);
	if (!error)
		return 0;
	put_disk(disk);
no_disk:
	blk_mq_free_tag_set(&requests);
no_memory:
	vfree(tags);
	vfree(data);
	return error;
}

static void __exit tagged_exit(void)
{
	del_gendisk(disk);
	put_disk(disk);
	blk_mq_free_tag_set(&requests);
	vfree(tags);
	vfree(data);
}

#else

static int __init tagged_init(void)
{
	return -EOPNOTSUPP;
}

static void __exit tagged_exit(void) {}

#endif

module_init(tagged_init);
module_exit(tagged_exit);
MODULE_DESCRIPTION("RAM disk with metadata, for tests of dm-crypt");
MODULE_LICENSE("GPL");
