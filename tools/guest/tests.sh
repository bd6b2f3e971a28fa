#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the tests named in $TESTS, one after the other, each with a time limit of
# $LIMIT seconds. Write NAME.ktap, NAME.seconds and NAME.status to $RESULTS.

export LC_ALL=C # a point in EPOCHREALTIME
for name in $TESTS; do
	echo "# $name"
	echo "guest test: $name" >/dev/kmsg
	mkdir -p "$(dirname "$RESULTS/$name")"
	start=${EPOCHREALTIME/./}
	timeout --kill-after=10 "$LIMIT" "$INPUT/tests/$name.sh" 2>&1 | tee "$RESULTS/$name.ktap"
	status=${PIPESTATUS[0]}
	microseconds=$((${EPOCHREALTIME/./} - start))
	printf '%d.%06d\n' $((microseconds / 1000000)) $((microseconds % 1000000)) >"$RESULTS/$name.seconds"
	echo "$status" >"$RESULTS/$name.status"
done
