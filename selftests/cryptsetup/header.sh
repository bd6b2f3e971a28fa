# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Read and change LUKS2 metadata without cryptsetup. There are two copies of $COPY bytes each: a
# binary header of 4 KiB, with a checksum of the complete copy at byte 448, then the JSON text.

# metadata DEVICE NUMBER: print one copy, as bytes.
metadata() {
	dd if="$1" bs="$COPY" skip="$2" count=1 iflag=direct status=none
}

# json DEVICE NUMBER
json() {
	dd if="$1" bs=4096 skip="$(($2 * COPY / 4096 + 1))" count="$((COPY / 4096 - 1))" iflag=direct status=none |
		tr -d '\0'
}

# checksum FILE: print the right one for the copy in FILE, and erase the one in it.
checksum() {
	local sum

	dd if=/dev/zero of="$1" bs=64 seek=7 count=1 conv=notrunc status=none
	sum=$(sha256sum "$1")
	printf '%s\n' "${sum%% *}"
}

# validity DEVICE: print "valid valid" when both copies are valid and equal.
validity() {
	local number file found words=""

	for number in 0 1; do
		file=$WORK/copy.$number
		metadata "$1" "$number" >"$file"
		found=$(xxd -s 448 -l 32 -c 32 -p "$file")
		if [ "$found" = "$(checksum "$file")" ]; then words+="valid "; else words+="invalid "; fi
	done
	cmp -s -i 4096 "$WORK/copy.0" "$WORK/copy.1" || words+="different "
	printf '%s\n' "${words% }"
}

# stored DEVICE: print the flags in the header, from both copies when they differ.
stored() {
	{ json "$1" 0 && json "$1" 1; } | jq -r '.config.flags // [] | join(" ")' | uniq
}

# dumped DEVICE [PROGRAM]: print the flags that luksDump shows.
dumped() {
	"${2:-$CRYPTSETUP}" luksDump "$1" | sed -n '/^Flags:/{s/^Flags:[[:space:]]*//;s/ *$//;s/  */ /g;p}'
}

# edit DEVICE FILTER: change the JSON of both copies with a jq filter.
edit() {
	local number file=$WORK/edited

	for number in 0 1; do
		metadata "$1" "$number" | head -c 4096 >"$file"
		json "$1" "$number" | jq -cj "$2" >>"$file" || broken "jq refuses $2"
		truncate -s "$COPY" "$file"
		checksum "$file" | xxd -r -p | dd of="$file" bs=1 seek=448 conv=notrunc status=none
		dd if="$file" of="$1" bs="$COPY" seek="$number" count=1 oflag=direct conv=notrunc status=none ||
			broken "cannot write to $1"
	done
	[ "$(validity "$1")" = "valid valid" ] || broken "the edited header of $1 is $(validity "$1")"
}

# store DEVICE FLAG...: write them to the header without cryptsetup.
store() {
	local device=$1

	shift
	edit "$device" ".config.flags = $(printf '%s\n' "$@" | jq -cR . | jq -cs 'map(select(. != ""))')"
}
