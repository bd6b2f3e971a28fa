#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Whether 32 bytes are anywhere in the kernel's memory: key_in_memory.py FIRST SHA256 prints yes or no.

FIRST are four of them, hexadecimal, SHA256 is the digest of all: so this program does not find itself.
"""

import hashlib
import struct
import sys

LOAD = 1  # segments of an ELF file that are memory
BLOCK = 1 << 22


def blocks(core):
    header = core.read(64)
    (table,), (size, count) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<HH", header, 54)
    core.seek(table)
    for kind, _, place, _, physical, length, _, _ in [struct.unpack("<IIQQQQQQ", core.read(size)) for _ in range(count)]:
        if kind != LOAD or physical >= 1 << 52:  # all memory has a physical address; what is mapped besides is in it
            continue
        for at in range(0, length, BLOCK):
            core.seek(place + at)
            yield core.read(min(BLOCK + 31, length - at))


def found(first, digest):
    with open("/proc/kcore", "rb", buffering=0) as core:
        for block in blocks(core):
            at = block.find(first)
            while at >= 0:
                if hashlib.sha256(block[at : at + 32]).hexdigest() == digest:
                    return True
                at = block.find(first, at + 1)
    return False


print("yes" if found(bytes.fromhex(sys.argv[1]), sys.argv[2]) else "no")
