#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="open sets the options in each dm-crypt layer of each type of volume, and status shows the active ones"
#
# The status shows exactly the active flags in one line, each word once and in a fixed order, or no line. The content is
# the same. An open without the options afterwards sets none. The options also
# work, without a message, where open has to load dm-crypt, whose version is unknown before.
# Requires: root, dmsetup, losetup, null_blk, the patched cryptsetup and the images of its tests; for some cases
# dm-crypt as a module that nobody uses.
# Risks: dm-crypt is unloaded for a moment.

. "$(dirname "$0")/volumes.sh"

# every_layer TYPE [unload]: with "unload" before each open with options.
every_layer() {
	local mode without type=$1

	volume "$type"
	open_volume
	case $type in
	tcrypt* | bitlk*) ;;
	*) dd if=/dev/urandom of="/dev/mapper/$VOLUME" bs=1M count=4 oflag=direct status=none || broken "cannot write" ;;
	esac
	without=$(content)
	close_volume
	for mode in no_read no_write both default; do
		${2:-:}
		# The options are words.
		silent open "${OPEN[@]}" "$VOLUME" ${OPTIONS[$mode]} || return
		active "${FLAGS[$mode]}"
		want "content with ${FLAGS[$mode]}" "$without" "$(content)"
		close_volume
	done
}

# The words of the status, and those of the table.
SHOWN=(discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue)
TABLE=(allow_discards "${SHOWN[@]:1}")

# mapping: create one without a table, as $VOLUME.
mapping() {
	null_disk irqmode=1
	dmsetup create "$VOLUME" --uuid "CRYPT-PLAIN-$VOLUME" --notable || broken "dmsetup create failed"
	defer dmsetup remove --retry "$VOLUME"
}

# lines WORD...: print the line of the status for a table with these words.
lines() {
	dmsetup load "$VOLUME" --table "$(crypt_table aes-xts-plain64 "$@")" &&
		dmsetup resume "$VOLUME" && status_line "$VOLUME"
}

status_of_every_combination() {
	local subset i given shown

	mapping
	for ((subset = 0; subset < 1 << ${#SHOWN[@]}; subset++)); do
		given=() shown=""
		for ((i = 0; i < ${#SHOWN[@]}; i++)); do
			((subset >> i & 1)) || continue
			given+=("${TABLE[i]}")
			shown+=" ${SHOWN[i]}"
		done
		# Brackets show a space at the end.
		want "line for: ${given[*]}" "[${shown:+  flags:  $shown}]" "[$(lines "${given[@]}")]"
	done
}

# In any order and case of the words. Those that are no flags in the status must not print an empty line.
status_of_other_arguments() {
	mapping
	want "line" "  flags:   no_read_workqueue no_write_workqueue" \
		"$(lines No_Write_Workqueue NO_READ_WORKQUEUE)"
	want "line" "" "$(lines sector_size:4096 iv_large_sectors)"
	want "line" "  flags:   no_write_workqueue" "$(lines no_write_workqueue sector_size:4096)"
}

requires_cryptsetup flags tar xz

CASES=(status_of_every_combination status_of_other_arguments)
for type in "${ALL_TYPES[@]}"; do
	CASES+=("every_layer $type" "every_layer $type unload")
done
quick_cases "${CASES[@]:0:2}" "every_layer plain" "every_layer luks2-aead" "every_layer tcrypt-chain" "every_layer bitlk-elephant" \
	"every_layer luks2 unload" "every_layer tcrypt-chain unload"
run
