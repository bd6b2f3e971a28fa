# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A disk with a region for each mode, written in that mode and read in all modes.
# 44 KiB, the size of a write, is no power of two; a read is 3 writes long, a
# region 6.

WRITE=44K READ=132K COUNT=6
REGION=$((44 * COUNT * 2))

# map_regions DEVICE CIPHER KEY_BYTES [ARGUMENT]...: one mapping, first each
# region in the mode that writes it, then all regions in the first mode, in the
# second, and so on.
map_regions() {
	local device=$1 cipher key table="" start=0 segment mode arguments

	cipher=$(cipher "$2") key=$(key "$3")
	shift 3
	for ((segment = 0; segment < 20; segment++)); do
		mode=${MODES[segment < 4 ? segment : segment / 4 - 1]}
		# The flags are words.
		# shellcheck disable=SC2206
		arguments=(${FLAGS[$mode]} "$@")
		table+="$start $REGION crypt $cipher ${key:--} 0 $device $((segment % 4 * REGION))"
		[ ${#arguments[@]} -eq 0 ] || table+=" ${#arguments[@]} ${arguments[*]}"
		table+=$'\n'
		start=$((start + REGION))
	done
	map regions "${table%$'\n'}"
}

# written_in_each_read_in_all: new data, the same for each region.
written_in_each_read_in_all() {
	dd if=/dev/urandom of="$DATA" bs=$WRITE count=$COUNT iflag=fullblock status=none
	cat "$DATA" "$DATA" "$DATA" "$DATA" >"$DATA.4"
	want "message of writing" "" \
		"$(dd if="$DATA.4" of="$MAPPED" bs=$WRITE oflag=direct status=none 2>&1)"
	want "difference, read in all modes (region written in: ${MODES[*]})" "" \
		"$(dd if="$MAPPED" bs=$READ skip=$((4 * COUNT / 3)) iflag=direct status=none 2>&1 |
			cmp - <(cat "$DATA.4" "$DATA.4" "$DATA.4" "$DATA.4") 2>&1)"
}

# Where the data are kept; $DATA is one region's.
DATA=$(mktemp -d) || broken "mktemp failed"
defer rm -r "$DATA"
DATA+=/data
