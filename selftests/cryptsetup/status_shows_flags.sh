#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: `cryptsetup status` has one line with exactly the flags in force, each
# word once, in a fixed order, and no such line when there is none.
# Needs: root, dmsetup, null_blk, the patched cryptsetup. Endangers: nothing but
# devices of its own.

here=$(dirname "$0")
. "$here/../functional/ktap.sh"
. "$here/../functional/dm_crypt.sh"
. "$here/volumes.sh"

# As the status calls them, and as the table does.
SHOWN=(discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue)
TABLE=(allow_discards "${SHOWN[@]:1}")

# lines WORD...: what the status says about flags when the table has these words.
lines() {
	dmsetup load "$NAME" --table "$(crypt_table "$DISK" aes-xts-plain64 "$(key 64)" "$@")" &&
		dmsetup resume "$NAME" && status_line "$NAME"
}

# combinations_of NUMBER: for every choice of that many flags.
combinations_of() {
	local subset i tried=0 given shown

	for ((subset = 0; subset < 1 << ${#SHOWN[@]}; subset++)); do
		given=() shown=""
		for ((i = 0; i < ${#SHOWN[@]}; i++)); do
			((subset >> i & 1)) || continue
			given+=("${TABLE[i]}")
			shown+=" ${SHOWN[i]}"
		done
		[ "${#given[@]}" -eq "$1" ] || continue
		tried=$((tried + 1))
		# Brackets show a space at the end.
		want "line for: ${given[*]}" "[${shown:+  flags:  $shown}]" "[$(lines "${given[@]}")]"
	done
	[ "$tried" -gt 0 ] || broken "no combination of $1"
}

same_line_in_any_order_and_case() {
	want "line" "  flags:   no_read_workqueue no_write_workqueue" \
		"$(lines No_Write_Workqueue NO_READ_WORKQUEUE)"
}

# Words that the status does not list among the flags must not bring an empty line.
other_arguments_make_no_line() {
	want "line" "" "$(lines sector_size:4096 iv_large_sectors)"
	want "line" "  flags:   no_write_workqueue" "$(lines no_write_workqueue sector_size:4096)"
}

require_cryptsetup flags
null_disk volume 16
dmsetup create "$NAME" --uuid "CRYPT-PLAIN-$NAME" --notable || broken "dmsetup create failed"
defer dmsetup remove --retry "$NAME"

CLAIMS=()
for ((number = 0; number <= ${#SHOWN[@]}; number++)); do
	CLAIMS+=("combinations_of $number")
done
CLAIMS+=(same_line_in_any_order_and_case other_arguments_make_no_line)
quick_claims "combinations_of 0" "combinations_of 1" "combinations_of ${#SHOWN[@]}" "${CLAIMS[@]: -2}"
run_claims
