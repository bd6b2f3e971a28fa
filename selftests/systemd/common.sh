# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # the tests use what is set here
#
# systemd's programs, with the libcryptsetup of $CRYPTSETUP_PREFIX. The built systemd is in $TREE.

. "${BASH_SOURCE[0]%/*}/../cryptsetup/volumes.sh"

ALL=(same-cpu-crypt high-priority submit-from-crypt-cpus no-read-workqueue no-write-workqueue) # in the order of the table
export LD_LIBRARY_PATH=$CRYPTSETUP_PREFIX/lib

# write_key: the passphrase, without a line end.
write_key() { (umask 077 && printf %s "$SECRET" >"$WORK/key"); }

# attach OPTION...: open the volume on $DEVICE without a message about an option. libcryptsetup drops
# options that the kernel does not support.
attach() {
	local options=headless${*:+ $*}

	write_key
	defer close_volume
	"$TREE/build/systemd-cryptsetup" attach "$VOLUME" "$DEVICE" "$WORK/key" "${options// /,}" >"$WORK/out" 2>&1
	want "exit status of systemd-cryptsetup" 0 $? || diag "$(<"$WORK/out")"
	want "messages about options" "" "$(grep -i option "$WORK/out")"
}

# supported OPTION...: print the arguments that the table of this kernel has for these options.
supported() {
	local word words=()

	for word; do
		case $word in
		*=*) ;;
		discard) words+=(allow_discards) ;;
		high-priority) [ "$HIGH_PRIORITY" = no ] || words+=(high_priority) ;;
		*-*) words+=("${word//-/_}") ;;
		esac
	done
	counted "${words[@]}"
}

requires_cryptsetup flags
[ -x "$TREE/build/systemd-cryptsetup" ] || skip "needs the patched systemd in TREE"
takes null high_priority || HIGH_PRIORITY=no
