#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completion for the installed program: share/bash-completion/completions/dmcrypt-advise

_dmcrypt_advise() {
	local word=${COMP_WORDS[COMP_CWORD]} node words=""

	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--apply | --undo | --measure)
		for node in /sys/block/dm-*/dm; do
			case $(cat "$node/uuid" 2>/dev/null) in CRYPT-*) words+=" $(cat "$node/name")" ;; esac
		done
		;;
	--key-file)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	*) words="--help --json --apply --undo --measure --seconds --yes --key-file" ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _dmcrypt_advise dmcrypt-advise
