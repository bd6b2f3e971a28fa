# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# I/O for the dm-crypt tests whose data are checked, and what goes on beside it.

# completed DEVICE: how many reads and writes.
completed() {
	local stat

	read -r -a stat <"/sys/dev/block/$(numbers_of "$1")/stat"
	echo $((stat[0] + stat[4]))
}

# begun DEVICE PID: wait until a request of the process, just started, is completed there.
begun() {
	local before

	before=$(completed "$1")
	while [ "$(completed "$1")" -eq "$before" ]; do
		kill -0 "$2" 2>/dev/null || broken "the I/O ended by itself"
	done
}

# ends PID DEVICE SECONDS: wait for I/O to end, as long as no more than SECONDS pass in which none of
# its requests is completed there.
ends() {
	local seen=-1 now since

	while kill -0 "$1" 2>/dev/null; do
		now=$(completed "$2")
		[ "$now" -eq "$seen" ] || since=$SECONDS
		seen=$now
		[ $((SECONDS - since)) -le "$3" ] || return
		sleep 0.2
	done
}

# verified_io NAME FILE [FIO OPTION]...: run fio, whose data carry checksums,
# and want no error from it: then its status is 0.
verified_io() {
	local name=$1 file=$2 log errors status=0

	shift 2
	log=$(mktemp) || broken "mktemp failed"
	fio --name="$name" --filename="$file" --direct=1 --ioengine=libaio \
		--verify=crc32c --verify_fatal=1 --group_reporting --minimal "$@" >"$log" 2>&1
	want "fio exit status ($name)" 0 $? || status=1
	# Terse output, field 5: the error of the first job that had one.
	errors=$(awk -F';' '/^3;/ { if ($5) e = $5 } END { print e + 0 }' "$log")
	want "fio errors ($name)" 0 "$errors" || status=1
	[ $status -eq 0 ] || diag "$(grep -v -e '^3;' -e 'multiple writers' "$log" | head -n 4)"
	rm -f "$log"
	return $status
}

# beside_io TIMES SECONDS ACTION FIO_OPTION...: on $MAPPED, I/O that checks what it
# wrote while it goes on writing, in as many runs as it takes to do the action often
# and long enough; the action gets its number, from 0, and some request must complete
# while it goes on.
beside_io() {
	local times=$1 end=$((SECONDS + $2)) action=$3 number=0 beside=none before load

	shift 3
	while [ $number -lt "$times" ] || [ $SECONDS -lt $end ]; do
		verified_io "$action" "$MAPPED" --rw=randwrite --iodepth=16 "$@" &
		load=$!
		begun "$MAPPED" $load
		while kill -0 $load 2>/dev/null; do
			before=$(completed "$MAPPED")
			$action $number || break
			number=$((number + 1))
			[ "$(completed "$MAPPED")" -eq "$before" ] || beside=some
		done
		wait $load
		want "status of the verified I/O" 0 $?
		[ -z "$ktap_verdict" ] || break
	done
	want "I/O beside $action" some $beside
}

# io_goes_well MODE CIPHER KEY_BYTES DISK_ATTRIBUTES FIO_OPTIONS: verified random
# writes through a mapping of a null_blk disk; none fails, the kernel is silent.
io_goes_well() {
	# Attributes and options are words.
	{
		null_disk io 64 $4
		map_flags io "$2" "$3" "$1" || return 0
		verified_io "$1" "$MAPPED" --rw=randwrite $5
	}
	no_complaints
}
