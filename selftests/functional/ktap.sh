# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# KTAP for shell tests: one line a claim, cleanup in reverse order.
#
# A test file sources this, fills the array CLAIMS and calls run_claims. Each
# entry is a function with its arguments and at the same time the claim's name:
#
#	CLAIMS=("unknown_word_is_refused" "same_data aes-xts-plain64 512")
#	run_claims
#
# A claim fails when it returns non-zero or when one of its `want` fails.
# Claims with the text of CLAIMS_LAST in their names come after all others.
# With KTAP_FAIL_FAST set, the first claim that fails is the last one tried.
# Exit status: 0 all passed or skipped, 1 something failed, 4 all skipped.

KSFT_FAIL=1
KSFT_SKIP=4

ktap_cleanups=()
ktap_verdict=""
ktap_skipped=""
ktap_number="" ktap_claim=""
CLAIMS_LAST=""

diag() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

# The machine cannot run any of this: say why and leave.
skip_all() {
	printf 'KTAP version 1\n1..0 # SKIP %s\n' "$*"
	exit "$KSFT_SKIP"
}

# What the claims stand on does not work: that is an error, never a skip.
broken() {
	printf 'Bail out! %s\n' "$*"
	exit "$KSFT_FAIL"
}

# hopeless REASON: this claim has failed, and what it leaves behind lets no other one be tried.
hopeless() {
	printf 'not ok %d %s\n' "$ktap_number" "$ktap_claim"
	broken "$@"
}

# skip REASON: this claim cannot be tried here. The caller returns after it.
skip() {
	ktap_skipped=$*
}

# want WHAT EXPECTED ACTUAL
want() {
	[ "$2" = "$3" ] && return 0
	diag "$1"
	diag "  expected: $2"
	diag "  actual:   $3"
	ktap_verdict=failed
	return 1
}

# outcome COMMAND...: "success" or "failure", for a want.
outcome() {
	if "$@" >/dev/null 2>&1; then
		echo success
	else
		echo failure
	fi
}

# defer COMMAND...: undo what was just acquired, last in first out, at the end
# of the claim, or of the file when no claim is running.
defer() {
	ktap_cleanups+=("$(printf '%q ' "$@")")
}

# undo DEPTH: run the deferred commands until only DEPTH are left.
undo() {
	local command

	while [ "${#ktap_cleanups[@]}" -gt "$1" ]; do
		command=${ktap_cleanups[-1]}
		unset 'ktap_cleanups[-1]'
		if ! eval "$command"; then
			diag "cleanup failed: $command"
			ktap_verdict=failed
		fi
	done
}

# undo_last [N]: run the last deferred command, or the last N.
undo_last() {
	undo $((${#ktap_cleanups[@]} - ${1:-1}))
}

# A cleanup that fails after the last claim is a failure of the file.
leave() {
	local status=$?

	ktap_verdict=""
	undo 0
	[ -z "$ktap_verdict" ] || [ "$status" -ne 0 ] || exit "$KSFT_FAIL"
}

trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

run_claims() {
	local claim first=() last=() number=0 failed=0 skipped=0 depth=${#ktap_cleanups[@]}

	for claim in "${CLAIMS[@]}"; do
		if [ -n "$CLAIMS_LAST" ] && [[ $claim = *"$CLAIMS_LAST"* ]]; then
			last+=("$claim")
		else
			first+=("$claim")
		fi
	done
	printf 'KTAP version 1\n1..%d\n' "${#CLAIMS[@]}"
	for claim in "${first[@]}" "${last[@]}"; do
		number=$((number + 1))
		ktap_verdict="" ktap_skipped="" ktap_number=$number ktap_claim=$claim
		# The words of a claim are a function and its arguments.
		$claim || ktap_verdict=failed
		undo "$depth"
		if [ -n "$ktap_verdict" ]; then
			failed=$((failed + 1))
			printf 'not ok %d %s\n' "$number" "$claim"
			[ -z "$KTAP_FAIL_FAST" ] || broken "stopped at the first failure"
		elif [ -n "$ktap_skipped" ]; then
			skipped=$((skipped + 1))
			printf 'ok %d %s # SKIP %s\n' "$number" "$claim" "$ktap_skipped"
		else
			printf 'ok %d %s\n' "$number" "$claim"
		fi
	done
	[ "$failed" -eq 0 ] || exit "$KSFT_FAIL"
	[ "$skipped" -lt "$number" ] || exit "$KSFT_SKIP"
	exit 0
}
