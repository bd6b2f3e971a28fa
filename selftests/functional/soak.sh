#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="several mappings keep their data whatever is done to them at once, in any order"
#
# It changes flags, keys, ciphers and sizes, makes disks fail, removes mappings, takes memory, and
# takes CPUs offline and back. Nothing hangs. DM_CRYPT_MINUTES (default 1; the short form takes 20 s)
# and DM_CRYPT_SEED (default 5): the same seed takes the same steps.
# Requires: root, dmsetup, fio, null_blk, cryptd, dm-flakey, dm-integrity.
# Risks: the machine's page cache is dropped. After a hang CPUs stay offline.

. "$(dirname "$0")/common.sh"

SLOTS=4     # mappings at a time; the last one is authenticated
LOAD_MIB=1  # of a mapping, checked
PATIENCE=60 # seconds in which some request has to complete

CIPHER_NAMES=(aes-xts-plain64 aes-cbc-essiv:sha256 aes-cbc-eboiv null async-xts async-cbc-eboiv)
AUTHENTICATED=("capi:gcm(aes)-random" async-gcm)
TAG_BYTES=28
SECTOR_SIZES=("" "" sector_size:4096 "sector_size:4096 iv_large_sectors")
BLOCK_SIZES=(4k-4k 4k-4k 8k-8k 16k-16k 64k-64k 256k-256k 4k-64k)

declare -A MEMORY_OF FLAKY_OF DISKS TAGS_OF CIPHER_OF SIZE_OF MAPPING_OF LOAD_OF NOTE_OF

# pick WORD...: set $PICKED to one of them. Not in a subshell: the sequence has to go on.
pick() {
	shift $((RANDOM % $#))
	PICKED=$1
}

step() { diag "$SECONDS s: $(sed -E 's/[0-9a-f]{64,}/KEY/' <<<"$*")"; }

# table SLOT: set $TABLE to one with new flags.
table() {
	pick "${MODES[@]}"
	TABLE=$(DEVICE=${DISKS[$1]} crypt_table "${CIPHER_OF[$1]}" ${FLAGS[$PICKED]} ${SIZE_OF[$1]} ${TAGS_OF[$1]})
}

# appear SLOT: create a mapping with a cipher, a sector size (that of the tags where it is
# authenticated) and flags of its own.
appear() {
	if [ -n "${TAGS_OF[$1]}" ]; then
		pick "${AUTHENTICATED[@]}" && CIPHER_OF[$1]=$PICKED
	else
		pick "${CIPHER_NAMES[@]}" && CIPHER_OF[$1]=$PICKED
		pick "${SECTOR_SIZES[@]}" && SIZE_OF[$1]=$PICKED
	fi
	table "$1"
	step "slot $1: create $TABLE"
	dmsetup create "${MAPPING_OF[$1]}" --table "$TABLE"
	want "status of creating slot $1" 0 $?
}

# begin SLOT: start I/O that verifies its data.
begin() {
	local mapping=/dev/mapper/${MAPPING_OF[$1]} size

	pick "${BLOCK_SIZES[@]}" && size=$PICKED
	pick randwrite write
	step "slot $1: $PICKED of $size"
	fio --name="slot$1" --filename="$mapping" --direct=1 --ioengine=libaio --iodepth=16 \
		"--rw=$PICKED" "--bsrange=$size" "--size=${LOAD_MIB}M" "--randseed=$RANDOM" \
		--verify=crc32c --verify_fatal=1 --verify_backlog=32 >"${NOTE_OF[$1]}" 2>&1 &
	LOAD_OF[$1]=$!
}

# await SLOT PID: wait for a process that waits for requests of this mapping. Return its status.
# It must not write to the test's output: a process that hangs would keep that open.
await() {
	ends "$2" "/dev/mapper/${MAPPING_OF[$1]}" "$PATIENCE" || hang "slot $1 hangs"
	wait "$2"
}

suspend() { dmsetup suspend "${MAPPING_OF[$1]}" &>/dev/null & await "$1" $!; }

# finish SLOT: wait for its I/O, which must not fail.
finish() {
	[ -n "${LOAD_OF[$1]}" ] || return
	await "$1" "${LOAD_OF[$1]}"
	want "status of the verified I/O of slot $1" 0 $? ||
		diag "$(grep -v '^ ' "${NOTE_OF[$1]}" | head -n 6)"
	LOAD_OF[$1]=""
}

# The steps. Each gets a slot, during its I/O.

switch_flags() {
	table "$1"
	step "slot $1: reload $TABLE"
	dmsetup load "${MAPPING_OF[$1]}" --table "$TABLE" && suspend "$1" && dmsetup resume "${MAPPING_OF[$1]}"
	want "status of reloading slot $1" 0 $?
}

wipe_and_set_key() {
	[ "${CIPHER_OF[$1]}" != null ] || return
	step "slot $1: wipe and set the key"
	suspend "$1" && dmsetup message "${MAPPING_OF[$1]}" 0 key wipe
	want "status of wiping the key of slot $1" 0 $?
	dmsetup message "${MAPPING_OF[$1]}" 0 key set "$(key_of "${CIPHER_OF[$1]}")" &&
		dmsetup resume "${MAPPING_OF[$1]}"
	want "status of setting the key of slot $1" 0 $?
}

drop_caches() {
	step "drop caches, compact memory"
	echo 3 >/proc/sys/vm/drop_caches
	[ ! -e /proc/sys/vm/compact_memory ] || echo 1 >/proc/sys/vm/compact_memory
}

take_memory() {
	step "take memory for a moment"
	perl -e 'my $all = "x" x (64 << 20)'
}

switch_cpu() {
	pick /sys/devices/system/cpu/cpu[1-9]*/online
	[ -e "$PICKED" ] || return 0
	switched=$((switched + 1))
	step "switch $PICKED"
	echo $((! $(cat "$PICKED"))) >"$PICKED" || want "switching $PICKED" success failure
}

# A disk that fails all requests for a while: they fail, and no others afterwards. dm-integrity
# does not forgive a failed write.
fail_for_a_while() {
	[ -z "${TAGS_OF[$1]}" ] || return 0
	finish "$1"
	pick read write
	step "slot $1: the disk fails, $PICKED"
	disk_works "$1" no
	MAPPED=/dev/mapper/${MAPPING_OF[$1]}
	failed_requests "$PICKED" 1 &>"${NOTE_OF[$1]}" &
	await "$1" $!
	want "requests of slot $1 that failed" 16 "$(cat "${NOTE_OF[$1]}")"
	disk_works "$1" yes
}

# disk_works SLOT yes|no
disk_works() {
	local name=${FLAKY_OF[$1]##*/} table

	table="0 $(sectors_of "${FLAKY_OF[$1]}") flakey ${MEMORY_OF[$1]} 0"
	[ "$2" = yes ] && table+=" 3600 0" || table+=" 0 3600"
	dmsetup load "$name" --table "$table" && dmsetup suspend "$name" && dmsetup resume "$name" ||
		broken "cannot switch $name to: $table"
}

# The removal under load makes the load fail.
remove_and_create_again() {
	step "slot $1: wipe the table, remove"
	dmsetup wipe_table "${MAPPING_OF[$1]}" &>/dev/null &
	await "$1" $!
	want "status of wiping the table of slot $1" 0 $?
	[ -z "${LOAD_OF[$1]}" ] || await "$1" "${LOAD_OF[$1]}"
	LOAD_OF[$1]=""
	dmsetup remove --retry "${MAPPING_OF[$1]}"
	want "status of removing slot $1" 0 $?
	appear "$1"
}

remove_all() {
	local slot cpu

	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		[ ! -e "$cpu" ] || echo 1 >"$cpu"
	done
	for slot in "${!MAPPING_OF[@]}"; do
		kill "${LOAD_OF[$slot]:-none}" 2>/dev/null
		dmsetup remove --retry "${MAPPING_OF[$slot]}" 2>/dev/null
	done
	wait
}

# data_stays SEED
data_stays() {
	local slot end taken=0 switched=0

	RANDOM=$1
	for ((slot = 0; slot < SLOTS; slot++)); do
		null_disk "irqmode=$((slot % 3))" completion_nsec=20000 hw_queue_depth=$((8 << slot))
		MEMORY_OF[$slot]=$DEVICE
		below "soak-disk-$slot" flakey "$DEVICE" 0 3600 0
		FLAKY_OF[$slot]=$DEVICE DISKS[$slot]=$DEVICE MAPPING_OF[$slot]=$NAME-soak-$slot LOAD_OF[$slot]=""
		NOTE_OF[$slot]=$(mktemp) || broken "mktemp failed"
		defer rm "${NOTE_OF[$slot]}"
	done
	pick 512 4096 && SIZE_OF[$((SLOTS - 1))]=sector_size:$PICKED
	tags_over $TAG_BYTES "$PICKED"
	DISKS[$((SLOTS - 1))]=$DEVICE TAGS_OF[$((SLOTS - 1))]=integrity:$TAG_BYTES:aead
	defer remove_all
	for ((slot = 0; slot < SLOTS; slot++)); do
		appear $slot
	done
	for ((slot = 0; slot < SLOTS; slot++)); do
		begin $slot
	done
	end=$((SECONDS + TIME))
	while [ $SECONDS -lt $end ] && ((failed == 0)); do
		# The choice depends on the number of the step, not on the results of others.
		RANDOM=$(($1 * 1000003 + taken))
		slot=$((RANDOM + RANDOM)) slot=$((slot % SLOTS))
		if [ -z "${LOAD_OF[$slot]}" ] || [ $((RANDOM % 2)) -eq 0 ]; then
			finish "$slot"
			begin "$slot"
		fi
		pick switch_flags switch_flags wipe_and_set_key drop_caches take_memory switch_cpu \
			fail_for_a_while remove_and_create_again
		$PICKED "$slot"
		taken=$((taken + 1))
		no_warnings
	done
	for ((slot = 0; slot < SLOTS; slot++)); do
		((failed)) || finish $slot
	done
	want "steps" some "$([ $taken -gt 0 ] && echo some)"
	[ "$(getconf _NPROCESSORS_CONF)" -le 2 ] ||
		want "CPU switches" some "$([ $switched -gt 0 ] && echo some)"
	diag "seed $1: $taken steps in $TIME s"
}

requires fio perl target:flakey target:integrity modes async

CASES=("data_stays $SEED")
run
