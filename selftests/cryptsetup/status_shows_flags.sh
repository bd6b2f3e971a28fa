#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="cryptsetup status shows exactly the active flags in one line, or no line"
#
# Each word once, in a fixed order.
# Requires: root, dmsetup, null_blk, the patched cryptsetup.
# Risks: none.

. "$(dirname "$0")/volumes.sh"

# The words of the status, and those of the table.
SHOWN=(discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue)
TABLE=(allow_discards "${SHOWN[@]:1}")

# lines WORD...: print the line of the status for a table with these words.
lines() {
	dmsetup load "$VOLUME" --table "$(crypt_table aes-xts-plain64 "$@")" &&
		dmsetup resume "$VOLUME" && status_line "$VOLUME"
}

every_combination() {
	local subset i given shown

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

same_line_in_any_order_and_case() {
	want "line" "  flags:   no_read_workqueue no_write_workqueue" \
		"$(lines No_Write_Workqueue NO_READ_WORKQUEUE)"
}

# Words that are no flags in the status must not print an empty line.
other_arguments_make_no_line() {
	want "line" "" "$(lines sector_size:4096 iv_large_sectors)"
	want "line" "  flags:   no_write_workqueue" "$(lines no_write_workqueue sector_size:4096)"
}

requires_cryptsetup flags
null_disk irqmode=1
dmsetup create "$VOLUME" --uuid "CRYPT-PLAIN-$VOLUME" --notable || broken "dmsetup create failed"
defer dmsetup remove --retry "$VOLUME"

CASES=(every_combination same_line_in_any_order_and_case other_arguments_make_no_line)
run
