#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the tests named in $TESTS, one after the other, each with a time limit of
# $LIMIT seconds. Each leaves NAME.ktap and NAME.status in $RESULTS.

for name in $TESTS; do
	echo "# $name"
	echo "guest test: $name" >/dev/kmsg
	mkdir -p "$(dirname "$RESULTS/$name")"
	timeout --kill-after=10 "$LIMIT" "$INPUT/tests/$name.sh" 2>&1 | tee "$RESULTS/$name.ktap"
	echo "${PIPESTATUS[0]}" >"$RESULTS/$name.status"
done
