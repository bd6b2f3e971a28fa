#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Carry out the order $INPUT/order.json with the measuring program, which was
# copied to $INPUT/tools, on the host's Python ($PYTHON). It leaves its results in
# $RESULTS.

export PYTHONPATH="$INPUT/tools" PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" -s -m dmcrypt_inline.bench.inguest.measure "$INPUT/order.json" "$RESULTS"
