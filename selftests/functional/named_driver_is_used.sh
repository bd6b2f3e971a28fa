#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="dm-crypt uses the driver of the crypto API that the table names"
#
# A mapping holds a reference to its driver.
# Requires: root, dmsetup, null_blk.
# Risks: none.

. "$(dirname "$0")/common.sh"

# references DRIVER: print how many /proc/crypto shows.
references() {
	awk -F ' *: ' -v wanted="$1" '$1 == "driver" { found = $2 == wanted } found && $1 == "refcnt" { print $2 }' \
		/proc/crypto | tail -n 1
}

# mapping_holds DRIVER IV
mapping_holds() {
	local held

	null_disk size=1
	crypt named "capi:$1-$2"
	held=$(references "$1")
	undo_last
	want "references that the mapping held" 1 "$((${held:-0} - $(references "$1")))"
}

requires async # loads the best drivers
for driver in "$(sync_driver "xts(aes)")" "xts(ecb(aes-lib))" "xts(ecb(aes-generic))"; do
	! takes "capi:$driver-plain64" || CASES+=("mapping_holds $driver plain64" "mapping_holds $driver plain")
done
driver=${CIPHERS[async-xts]#capi:}
CASES+=("mapping_holds ${driver%-plain64} plain64")
run
