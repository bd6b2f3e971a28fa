#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""fail_nth.py MAPPING TABLE|read [MODE]: let each allocation of each operation on a mapping fail once.

With "read" those of a read only, in the modes "atomic" and "zoned" those of an atomic write or of a write to a zone.

Prints how many allocations an operation has, and how many of them it needs. Ends with an error when an operation
says that it succeeded and the data are wrong.
"""

import fcntl
import mmap
import os
import struct
import sys
from pathlib import Path

from device_mapper import Mapping

LENGTH = 65536
MOST = 5000  # allocations of one operation
SWEEPS = 5  # over the allocations of writes that must not be split: their number varies
RWF_ATOMIC = 0x40  # include/uapi/linux/fs.h
ZONE = 2048  # sectors of a zone of tagged_disk.c
BLKREPORTZONE, BLKRESETZONE = 0xC0101282, 0x40101283  # include/uapi/linux/blkzoned.h


def workers():
    """The threads that may work for a mapping."""
    names = ("kworker", "dmcrypt_write", "cryptd")
    return [comm.parts[2] for comm in Path("/proc").glob("[0-9]*/comm") if comm.read_text().startswith(names)]


def fail_each(what, operation, before=None, after_success=None, *, after_failure=None, tasks=lambda: ["thread-self"]):
    """Let each allocation of an operation fail once, and count how often the operation fails.

    `tasks` returns the tasks whose allocations fail: their first ones, then their second ones, and so on.
    """
    needed = 0
    for number in range(1, MOST):
        if before:
            before()
        failed = False
        files = [os.open(f"/proc/{task}/fail-nth", os.O_RDWR) for task in tasks()]
        for file in files:
            os.pwrite(file, b"%d" % number, 0)
        try:
            operation()
        except OSError:
            failed = True
        left = min(int(os.pread(file, 20, 0)) for file in files)
        for file in files:
            os.pwrite(file, b"0", 0)
            os.close(file)
        if left and failed:
            sys.exit(f"{what} fails without a failing allocation")
        after = after_failure if failed else after_success
        if after:
            after()
        if left:
            print(f"{what}: {number - 1} allocations, {needed} of them needed", flush=True)
            return needed
        needed += failed
    sys.exit(f"{what} has more than {MOST} allocations")


def fail_whole(disk, mode):
    """Let each allocation of an atomic write, or of a write to a zone, fail once.

    Ends with an error when a part of a failed write is on the disk.
    """
    data, memory = os.urandom(LENGTH), mmap.mmap(-1, LENGTH)

    def write(written=data):
        memory[:] = written
        if os.pwritev(disk, [memory], 0, RWF_ATOMIC if mode == "atomic" else 0) != LENGTH:
            sys.exit("a write was split")

    def holds(expected):
        os.preadv(disk, [memory], 0)
        if memory[:] != expected:
            sys.exit("the data are wrong")

    def begin():
        if mode == "zoned":
            fcntl.ioctl(disk, BLKRESETZONE, struct.pack("=QQ", 0, ZONE))
        else:
            write(bytes(LENGTH))

    def unchanged():
        if mode == "atomic":
            holds(bytes(LENGTH))
            return
        report = bytearray(struct.pack("=QII64x", 0, 1, 0))
        fcntl.ioctl(disk, BLKREPORTZONE, report)
        if struct.unpack_from("=3Q", report, 16)[2]:
            sys.exit("a part of a write is in the zone")

    for _ in range(SWEEPS):
        fail_each(f"write ({mode})", write, begin, lambda: holds(data), after_failure=unchanged)


def main(name, table, mode=""):
    mapping = Mapping(name)
    disk = os.open(f"/dev/mapper/{name}", os.O_RDWR | os.O_DIRECT)
    if mode in ("atomic", "zoned"):
        fail_whole(disk, mode)
        return
    data, memory = os.urandom(LENGTH), mmap.mmap(-1, LENGTH)

    def write():
        memory[:] = data
        if os.pwrite(disk, memory, 0) != LENGTH:
            raise OSError("a short write")

    def read():
        memory[:] = bytes(LENGTH)
        if os.preadv(disk, [memory], 0) != LENGTH:
            raise OSError("a short read")
        if memory[:] != data:
            sys.exit("a read succeeds and has other data")

    def activate():
        mapping.resume()
        read()

    def zeroes():
        memory[:] = bytes(LENGTH)
        os.pwrite(disk, memory, 0)

    def has_no_key():
        try:
            mapping.resume()
        except OSError:
            return
        sys.exit("the key is wiped, and the mapping works")

    def activate_and_suspend():
        activate()
        mapping.suspend()

    if table == "read":
        write()
        fail_each("read", read)
        return
    key = table.split()[4]
    fail_each("write", write, before=zeroes, after_success=read)
    fail_each("read", read)
    fail_each("write in workers", write, before=zeroes, after_success=read, tasks=workers)
    fail_each("read in workers", read, tasks=workers)
    if not fail_each("load", lambda: mapping.load(table), before=mapping.clear, after_success=activate):
        sys.exit("no allocation fails")
    mapping.suspend()
    if key != "-":
        fail_each(
            "key wipe",
            lambda: mapping.message("key wipe"),
            before=lambda: mapping.message(f"key set {key}"),
            after_success=has_no_key,
        )
        fail_each(
            "key set",
            lambda: mapping.message(f"key set {key}"),
            before=lambda: mapping.message("key wipe"),
            after_success=activate_and_suspend,
        )
    fail_each("resume", mapping.resume, before=lambda: (mapping.suspend(), mapping.load(table)), after_success=read)


main(*sys.argv[1:])
