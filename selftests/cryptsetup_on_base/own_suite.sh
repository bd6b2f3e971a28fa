#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Claim: cryptsetup's own tests pass on a kernel without the flags too.
# Needs and endangers: as the test of this name that it runs.
# Provokes: I/O error
# Provokes: INTEGRITY AEAD ERROR

. "$(dirname "$0")/../cryptsetup/own_suite.sh"
