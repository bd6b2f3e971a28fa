# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # the test cases set $failed
#
# I/O with fio, and what happens during it.

# completed DEVICE: print the number of completed reads and writes.
completed() {
	local stat

	read -r -a stat <"$(block_dir "$1")/stat"
	echo $((stat[0] + stat[4]))
}

# begun_io DEVICE PID: wait until a request of this new process is completed there.
begun_io() {
	local before

	before=$(completed "$1")
	while [ "$(completed "$1")" -eq "$before" ]; do
		kill -0 "$2" 2>/dev/null || broken "the I/O ended by itself"
	done
}

# ends PID DEVICE SECONDS: wait for the end of I/O, but not longer than SECONDS for a request in
# flight. Where none is, three times as long: on a loaded host fio can take a minute to start, and
# since Linux 5.19 a write of dm-crypt is in flight only when it is encrypted.
ends() {
	local now seen since patience

	while kill -0 "$1" 2>/dev/null; do
		now="$(completed "$2") $(in_flight "$2")" patience=$3
		[ "$now" = "$seen" ] || since=$SECONDS
		[[ $now != *" 0 0" ]] || patience=$((3 * patience))
		[ $((SECONDS - since)) -le $patience ] || return
		seen=$now
		sleep 0.2
	done
}

# in_flight DEVICE: print the number of reads and of writes in flight.
in_flight() { xargs <"$(block_dir "$1")/inflight"; }

# no_requests_in_flight DEVICE
no_requests_in_flight() { want "requests in flight" "0 0" "$(in_flight "$1")"; }

# verified_io NAME FILE [FIO OPTION]...: I/O with checksums in its data, without an error.
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

# going_io SECONDS NAME MAPPING [FIO OPTION]...: verified I/O in which some request completes every so many seconds.
going_io() {
	local load

	verified_io "${@:2}" &
	load=$!
	ends $load "$3" "$1" || hang "no request of $3 completed for $1 s"
	wait $load
	want "status of the verified I/O ($2)" 0 $?
}

# failed_requests RW MIB [FIO OPTION]...: print how many of the requests to $MAPPED failed; without
# options there are 16 for each MiB.
failed_requests() {
	fio --name=errors --filename="$MAPPED" --direct=1 --ioengine=libaio --rw="$1" --bs=64k \
		--iodepth=8 --size="$2M" --continue_on_error=all --group_reporting \
		--output-format=json "${@:3}" 2>/dev/null |
		awk -F '[:,]' '/"total_err"/ { print $2 + 0 }'
}

# during_io TIMES SECONDS ACTION FIO_OPTION...: verified I/O on $MAPPED, in as many runs as needed to
# call ACTION NUMBER so often and for so long. On a slow machine an action starts late: until a request
# completes during one, and for a minute more at most, each run is twice as long as the last one.
during_io() {
	local times=$1 end=$((SECONDS + $2)) action=$3 number=0 completed=none loops=1 before load

	shift 3
	while [ $number -lt "$times" ] || [ $SECONDS -lt $end ] ||
		{ [ $completed = none ] && [ $SECONDS -lt $((end + 60)) ]; }; do
		verified_io "$action" "$MAPPED" --rw=randwrite --iodepth=16 --loops=$loops "$@" &
		load=$!
		begun_io "$MAPPED" $load
		while kill -0 $load 2>/dev/null; do
			before=$(completed "$MAPPED")
			$action $number || break
			number=$((number + 1))
			[ "$(completed "$MAPPED")" -eq "$before" ] || completed=some
		done
		wait $load
		want "status of the verified I/O" 0 $?
		((failed == 0)) || break
		[ $completed = some ] || loops=$((loops * 2))
	done
	want "I/O completed during $action" some $completed
}

# io_succeeds MODE CIPHER DISK_ATTRIBUTES FIO_OPTIONS: verified random writes to a null_blk disk.
io_succeeds() {
	# Attributes and options are words.
	null_disk size=64 $3
	crypt io "$2" ${FLAGS[$1]}
	verified_io "$1" "$MAPPED" --rw=randwrite $4
}
