#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run the measuring program $INPUT/inguest.py, with the host's Python ($PYTHON), on the order
# $INPUT/order.json. Its results go to $RESULTS.

exec "$PYTHON" -I -S "$INPUT/inguest.py" "$INPUT/order.json" "$RESULTS"
