#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: an action that does nothing with the options refuses them, with exit
# status 1 and a message that names them, before it has changed anything.
# Needs: root, dmsetup, null_blk, the patched cryptsetup, for refresh also the
# images of its tests. Endangers: nothing but devices of its own.

here=$(dirname "$0")
. "$here/../stress/ktap.sh"
. "$here/../stress/dm_crypt.sh"
. "$here/volumes.sh"

# Each action with arguments that would do something if they were not refused.
# DISK, NAME and FILE stand for the volume, its mapping and a file that is not there.
ACTIONS=("close NAME" "remove NAME" "luksClose NAME" "resize NAME --size 8192" "status NAME" "benchmark -c aes-xts"
	"repair DISK" "reencrypt DISK --init-only" "erase DISK" "luksErase DISK" "convert DISK --type luks1"
	"config DISK --label new" "luksConfig DISK --label new" "luksFormat DISK" "luksAddKey DISK"
	"luksRemoveKey DISK" "luksChangeKey DISK" "luksConvertKey DISK" "luksKillSlot DISK 0" "luksUUID DISK"
	"isLuks DISK" "luksDump DISK" "tcryptDump DISK" "bitlkDump DISK" "luksSuspend NAME" "luksResume NAME"
	"luksHeaderBackup DISK --header-backup-file FILE" "luksHeaderRestore DISK --header-backup-file FILE"
	"token add DISK --key-description k" "token remove DISK --token-id 0")

# state: all that an action could have changed.
state() {
	header
	dmsetup table "$NAME"
	dmsetup info -c --noheadings -o suspended,readonly "$NAME"
	ls "$WORK"
}

# refused ARGUMENT...: with each option.
refused() {
	local mode before status message

	before=$(state)
	for mode in no_read no_write; do
		# The options are words.
		cs -q "$@" ${OPTIONS[$mode]}
		status=$?
		want "exit status with ${OPTIONS[$mode]}" 1 "$status"
		# Above the message stands how cryptsetup is used.
		message=$(tail -n 1 <<<"$COMPLAINED")
		want "options named" "$NO_READ $NO_WRITE" \
			"$(grep -oe "$NO_READ" -e "$NO_WRITE" <<<"$message" | tr '\n' ' ' | sed 's/ $//')" || diag "$message"
		want "state of the volume" "$before" "$(state)"
	done
}

action() {
	local word arguments=()

	for word in "$@"; do
		case $word in
		DISK) arguments+=("$DISK") ;;
		NAME) arguments+=("$NAME") ;;
		FILE) arguments+=("$WORK/backup") ;;
		*) arguments+=("$word") ;;
		esac
	done
	refused "${arguments[@]}"
}

# No action that the program itself lists may be missing above.
every_action_is_tried() {
	local listed

	listed=$("$CRYPTSETUP" --help | sed -n '/<action> is one of/,/^$/s/^\t\([[:alpha:]]*\) .*/\1/p' | sort)
	[ -n "$listed" ] || broken "cryptsetup --help lists no actions"
	want "actions not tried" "open" "$(comm -23 - <(printf '%s\n' "${ACTIONS[@]%% *}" | sort -u) <<<"$listed")"
}

# refresh_of TYPE: these cannot be refreshed at all. (The manual of v2.3.3 lists
# loopaes as one that can, but its activation insists on a device that is not in use.)
refresh_of() {
	local NAME=$NAME-other DISK OPEN SECRET ALWAYS LAYERS table

	volume "$1" || return 0
	open_volume || return
	table=$(dmsetup table "$NAME")
	if cs refresh "${OPEN[@]:0:${#OPEN[@]}-1}" "$NAME" "$NO_READ" "$NO_WRITE"; then
		want "exit status" failure success
	fi
	want "message" some "${COMPLAINED:+some}"
	diag "$COMPLAINED"
	want "table" "$table" "$(dmsetup table "$NAME")"
}

refresh_of_what_is_not_open() {
	cs refresh "$NAME-absent" "$NO_READ"
	want "exit status" 1 $?
	want "message" some "${COMPLAINED:+some}"
	want "mapping" "" "$(dmsetup ls | grep -o "$NAME-absent")"
}

require_cryptsetup flags tar xz
volume luks2
open_volume || broken "cannot open the volume"

CLAIMS=(every_action_is_tried)
for arguments in "${ACTIONS[@]}"; do
	CLAIMS+=("action $arguments")
done
CLAIMS+=("refresh_of tcrypt" "refresh_of bitlk-xts" "refresh_of loopaes"
	refresh_of_what_is_not_open)
run_claims
