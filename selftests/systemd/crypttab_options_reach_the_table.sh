#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="systemd-cryptsetup sets the performance options of crypttab"
#
# Requires: root, dmsetup, null_blk, the patched systemd in TREE, cryptsetup 2.8 in CRYPTSETUP_PREFIX.
# Risks: none.

. "$(dirname "$0")/common.sh"

# set_by TYPE OPTION...: the volume of this type, opened with options.
set_by() {
	local type=$1

	shift
	volume "$type"
	[ "$type" != plain ] || set -- plain cipher=aes-xts-plain64 size=512 hash=sha256 "$@"
	attach "$@"
	want "options in the table" "$(supported "$@")" "$(arguments "$VOLUME")"
}

CASES=("set_by luks2")
for option in "${ALL[@]}"; do
	CASES+=("set_by luks2 $option")
done
CASES+=("set_by luks2 discard ${ALL[*]}" "set_by luks1 ${ALL[*]}" "set_by plain ${ALL[*]}")
run
