#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="the patched and a released cryptsetup do the same with random flags in a LUKS2 header"
#
# DM_CRYPT_MINUTES (default 1; the short form takes 20 s) and DM_CRYPT_SEED (default 5).
# Requires: root, dmsetup, loop, python3, the patched cryptsetup, and a released one in /sbin that knows the options.
# Risks: none.

. "$(dirname "$0")/volumes.sh"

# same_as_released SEED
same_as_released() {
	local image=$WORK/image

	SECRET=fake-passphrase
	truncate -s 8M "$image" || broken "no room for $image"
	setup luksFormat -q --type luks2 "${FAST_KDF[@]}" --offset 8192 "$image"
	defer close_volume
	each_seed "$1" mutate_flags "$image"
}

mutate_flags() { "$(dirname "$0")/mutate_flags.py" "$1" "$VOLUME" "$CRYPTSETUP" "$RELEASED" "$2" <<<"$SECRET"; }

requires_cryptsetup flags python3
"$RELEASED" --help 2>/dev/null | grep -q -e "$NO_READ" || skip "needs a released cryptsetup with $NO_READ"
diag "released: $("$RELEASED" --version)"

CASES=("same_as_released $SEED")
run
