#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
DESCRIPTION="cryptsetup's own tests pass on a kernel without the flags too"
#
# Requires and risks: see the test of this name in cryptsetup/.
# Provokes: I/O error
# Provokes: INTEGRITY AEAD ERROR

. "$(dirname "$0")/../cryptsetup/own_suite.sh"
