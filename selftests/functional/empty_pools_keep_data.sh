#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="inline I/O keeps its data and has no error when most atomic allocations fail"
#
# Requires: root, dmsetup, fio, null_blk, debugfs; CONFIG_FAIL_PAGE_ALLOC or, on kernels where it can
# spare allocations that may wait, CONFIG_FAILSLAB.
# Risks: other programs may see atomic allocations fail, and CONFIG_DEBUG_OBJECTS may give up until
# the next boot: use a guest.
#
# A crypto queue holds the requests, so it has to be longer than the pool.
# Kernel arguments: cryptd.cryptd_max_cpu_qlen=1000
# Provokes: ODEBUG: Out of memory
# Guest: emulated

. "$(dirname "$0")/common.sh"

SIZE=$(full_or_quick 8 4)
BUDGET=1000000 # failures, more than there will be
WARNINGS=${WARNINGS/ODEBUG/ODEBUG: [^O]} # all but "Out of memory"

# data_survives DISK_ATTRIBUTES MODE CIPHER FIO_OPTION...
data_survives() {
	local injector failures

	# The attributes are words.
	null_disk size=32 $1
	crypt starved "$3" ${FLAGS[$2]}
	for injector in "${INJECTORS[@]}"; do
		inject "$injector" ignore-gfp-wait=Y "times=$BUDGET" probability=80
	done
	verified_io "$2" "$MAPPED" --rw=randwrite "${@:4}"
	for injector in "${INJECTORS[@]}"; do
		undo_last
	done
	failures=$(cat "${INJECTORS[@]/%//times}" |
		awk -v budget=$BUDGET '{ sum += budget - $1 } END { print sum ? "some" : "none" }')
	want "allocations that failed" some "$failures"
}

# A disk that is slow but takes all at once completes all at once. Slow is long
# against the time that the encryption of all of it takes.

# many_requests IRQMODE MODE CIPHER: more at a time than there are in the pool.
many_requests() {
	data_survives "irqmode=$1 completion_nsec=50000000 hw_queue_depth=256" "$2" "$3" \
		--bs=4k --iodepth=256 "--size=${SIZE}M"
}

# many_pages MODE CIPHER: more at a time than there are in the pool.
many_pages() {
	data_survives "irqmode=2 completion_nsec=1000000000" "$1" "$2" \
		--bs=64k --iodepth=64 "--size=$((2 * SIZE))M"
}

requires fio debugfs modes async
INJECTORS=()
for injector in failslab fail_page_alloc; do
	[ ! -d $DEBUGFS/$injector ] || INJECTORS+=("$DEBUGFS/$injector")
done
[ "${#INJECTORS[@]}" -gt 0 ] || skip "needs failslab or fail_page_alloc in debugfs"

for irqmode in 1 2; do
	CASES+=("many_requests $irqmode both async-xts"
		"many_requests $irqmode both aes-xts-plain64"
		"many_requests $irqmode no_read aes-cbc-eboiv")
done
for mode in "${MODES[@]}"; do
	CASES+=("many_pages $mode aes-xts-plain64")
done
CASES+=("many_pages both async-xts")
quick_cases "many_requests 2 both async-xts" "many_requests 2 no_read aes-cbc-eboiv" \
	"many_pages both aes-xts-plain64"
run
