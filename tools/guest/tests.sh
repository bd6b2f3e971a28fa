#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the test $TEST with a time limit of $LIMIT seconds. Write output.ktap, seconds
# and status to $RESULTS.

export LC_ALL=C # a point in EPOCHREALTIME
echo "guest test: $TEST" >/dev/kmsg
start=${EPOCHREALTIME/./}
timeout --kill-after=10 "$LIMIT" "$INPUT/tests/$TEST.sh" 2>&1 | tee "$RESULTS/output.ktap"
status=${PIPESTATUS[0]}
microseconds=$((${EPOCHREALTIME/./} - start))
printf '%d.%06d\n' $((microseconds / 1000000)) $((microseconds % 1000000)) >"$RESULTS/seconds"
echo "$status" >"$RESULTS/status"
