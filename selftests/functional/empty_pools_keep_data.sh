#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: when most allocations fail that must not wait, of objects and of pages,
# inline reads and writes get slower, and nothing else: no error, no wrong data,
# no complaint.
# Needs: root, dmsetup, fio, null_blk, debugfs; CONFIG_FAIL_PAGE_ALLOC or, on kernels
# where it can spare those that may wait, CONFIG_FAILSLAB.
# Endangers: other programs may see atomic allocations fail, and CONFIG_DEBUG_OBJECTS
# may give up until the next boot: run it in a guest.
#
# Requests are held by a crypto queue, so it has to be longer than the pool.
# Kernel arguments: cryptd.cryptd_max_cpu_qlen=1000
# Provokes: ODEBUG: Out of memory
# Guest: emulated

here=$(dirname "$0")
. "$here/ktap.sh"
. "$here/dm_crypt.sh"

SIZE=$(full_or_quick 8 4)
BUDGET=1000000 # failures, more than there will be

# fail_most_atomic_allocations: of all kinds that the kernel can make fail.
fail_most_atomic_allocations() {
	local knobs

	for knobs in "${INJECTORS[@]}"; do
		defer sh -c "echo 0 >$knobs/probability"
		echo N >"$knobs/task-filter"
		echo Y >"$knobs/ignore-gfp-wait"
		want "ignore-gfp-wait" Y "$(cat "$knobs/ignore-gfp-wait")"
		echo 0 >"$knobs/verbose"
		echo 1 >"$knobs/interval"
		echo $BUDGET >"$knobs/times"
		if [ -e "$knobs/min-order" ]; then
			echo N >"$knobs/ignore-gfp-highmem"
			echo 0 >"$knobs/min-order"
		fi
		echo 80 >"$knobs/probability"
	done
}

failures() {
	cat "${INJECTORS[@]/%//times}" |
		awk -v budget=$BUDGET '{ sum += budget - $1 } END { print sum }'
}

# data_survive DISK_ATTRIBUTES MODE CIPHER KEY_BYTES FIO_OPTION...
data_survive() {
	local attributes=$1 mode=$2 cipher=$3 bytes=$4 failed

	shift 4
	# The attributes are words.
	null_disk starved 32 $attributes
	map_flags starved "$cipher" "$bytes" "$mode" || return 0
	fail_most_atomic_allocations
	verified_io "$mode" "$MAPPED" --rw=randwrite "$@"
	undo_last "${#INJECTORS[@]}"
	failed=$(failures)
	[ "$failed" -eq 0 ] || failed=some
	want "allocations that failed" some "$failed"
	no_complaints "ODEBUG: Out of memory"
}

# A disk that is slow but takes all at once completes all at once. Slow is long
# against the time that the encryption of all of it takes.

# many_requests IRQMODE MODE CIPHER KEY_BYTES: more at a time than are held back.
many_requests() {
	data_survive "irqmode=$1 completion_nsec=50000000 hw_queue_depth=256" "$2" "$3" "$4" \
		--bs=4k --iodepth=256 "--size=${SIZE}M"
}

# many_pages MODE CIPHER KEY_BYTES: the same.
many_pages() {
	data_survive "irqmode=2 completion_nsec=1000000000" "$1" "$2" "$3" \
		--bs=64k --iodepth=64 "--size=$((2 * SIZE))M"
}

needs fio debugfs null_blk modes async
INJECTORS=()
for injector in failslab fail_page_alloc; do
	[ ! -d $DEBUGFS/$injector ] || INJECTORS+=("$DEBUGFS/$injector")
done
[ "${#INJECTORS[@]}" -gt 0 ] || skip_all "needs failslab or fail_page_alloc in debugfs"

CLAIMS=()
for irqmode in 1 2; do
	CLAIMS+=("many_requests $irqmode both async-xts 64"
		"many_requests $irqmode both aes-xts-plain64 64"
		"many_requests $irqmode no_read aes-cbc-eboiv 32")
done
for mode in "${MODES[@]}"; do
	CLAIMS+=("many_pages $mode aes-xts-plain64 64")
done
CLAIMS+=("many_pages both async-xts 64")
quick_claims "many_requests 2 both async-xts 64" \
	"many_requests 2 no_read aes-cbc-eboiv 32" \
	"many_pages both aes-xts-plain64 64"
run_claims
