# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# One round of the posting's workload: 4k, direct, one job with psync, sequential
# read and write, on the RAM disk and on null-cipher mappings of it. Both modules
# take their turn in each round; who comes first alternates.

RUNTIME=600ms # of one cell; long against a clock tick, short against a drift

# Which mappings a module is measured with, and their optional arguments.
declare -A CELLS=(
	[base]="default"
	[series]="default no_read_workqueue no_write_workqueue both"
)

# job NAME DEVICE: read, then write, after everything that stands before.
job() {
	local rw

	for rw in read write; do
		printf '[%s:%s]\nstonewall\nfilename=%s\nrw=%s\n' "$1" "$rw" "$2" "$rw"
	done
}

# w1_module ROUND VARIANT
w1_module() {
	local cell flags sectors file="$RESULTS/w1-$1-$2"

	load "$2"
	sectors=$(blockdev --getsz /dev/ram0)
	printf '[global]\nioengine=psync\ndirect=1\nbs=4k\nnumjobs=1\ntime_based\nruntime=%s\n' "$RUNTIME" >"$file.fio"
	job raw /dev/ram0 >>"$file.fio"
	for cell in ${CELLS[$2]}; do
		flags=${cell/#default/}
		flags=${flags/both/no_read_workqueue no_write_workqueue}
		set -- "$1" "$2" $flags
		dmsetup create "$cell" --table "0 $sectors crypt $NULL_CIPHER 0 /dev/ram0 0${flags:+ $(($# - 2)) $flags}" ||
			die "dmsetup create $cell"
		same "flags of $2 $cell" "$flags" "$(flags_of "$cell")"
		job "$2:$cell" "/dev/mapper/$cell" >>"$file.fio"
	done
	dmsetup table >"$file.tables"
	fio --output-format=json --output="$file.json" "$file.fio" || die "fio, round $1, $2"
	for cell in ${CELLS[$2]}; do
		dmsetup remove --retry "$cell" || die "dmsetup remove $cell"
	done
	rmmod dm_crypt || die "rmmod"
}

w1_round() {
	local variants=(base series) variant

	[ $(($1 % 2)) -eq 1 ] || variants=(series base)
	for variant in "${variants[@]}"; do
		w1_module "$1" "$variant"
	done
}
