#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""fail_nth.py MAPPING TABLE|read [MODE]: let each allocation of each operation on a mapping fail once.

With "read" for the table, those of a read only. In the mode "atomic" those of an atomic write only, in the mode "zoned"
those of a write to a zone: neither may be split.

Prints how many allocations an operation has, and how many of them it needs. Ends with an error when an operation
says that it succeeded and the data are wrong.
"""

import mmap
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from device_mapper import Mapping

LENGTH = 65536
MOST = 5000  # allocations of one operation
RWF_ATOMIC = 0x40  # include/uapi/linux/fs.h


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


def zone(command, name):
    """Report or reset the first zone of a mapping."""
    return subprocess.check_output(["blkzone", command, "--count=1", f"/dev/mapper/{name}"], text=True)


def main(name, table, mode=""):
    mapping = Mapping(name)
    disk = os.open(f"/dev/mapper/{name}", os.O_RDWR | os.O_DIRECT)
    data, memory = os.urandom(LENGTH), mmap.mmap(-1, LENGTH)

    def write():
        memory[:] = data
        if os.pwritev(disk, [memory], 0, RWF_ATOMIC if mode == "atomic" else 0) != LENGTH:
            raise OSError("a short write")

    def read():
        memory[:] = bytes(LENGTH)
        if os.preadv(disk, [memory], 0) != LENGTH:
            raise OSError("a short read")
        if memory[:] != data:
            sys.exit("a read succeeds and has other data")

    def zeroes():
        if mode == "zoned":
            zone("reset", name)
        else:
            memory[:] = bytes(LENGTH)
            os.pwrite(disk, memory, 0)

    def untouched():
        if mode == "zoned":
            written = "wptr 0x000000" not in zone("report", name)
        else:
            os.preadv(disk, [memory], 0)
            written = memory[:] != bytes(LENGTH)
        if written:
            sys.exit("a part of a failed write is on the disk")

    def has_no_key():
        with suppress(OSError):
            mapping.resume()
            sys.exit("the key is wiped, and the mapping works")

    if table == "read":
        write()
        fail_each("read", read)
        return
    if mode in ("atomic", "zoned"):
        # The number of their allocations varies.
        if not sum(fail_each(f"write ({mode})", write, zeroes, read, after_failure=untouched) for _ in range(5)):
            sys.exit("no allocation fails")
        return
    key = table.split()[4]
    fail_each("write", write, before=zeroes, after_success=read)
    fail_each("read", read)
    fail_each("write in workers", write, before=zeroes, after_success=read, tasks=workers)
    fail_each("read in workers", read, tasks=workers)
    if not fail_each("load", lambda: mapping.load(table), mapping.clear, lambda: (mapping.resume(), read())):
        sys.exit("no allocation fails")
    mapping.suspend()
    if key != "-":
        set_key, wipe_key = partial(mapping.message, f"key set {key}"), partial(mapping.message, "key wipe")
        fail_each("key wipe", wipe_key, set_key, has_no_key)
        fail_each("key set", set_key, wipe_key, lambda: (mapping.resume(), read(), mapping.suspend()))
    fail_each("resume", mapping.resume, before=lambda: (mapping.suspend(), mapping.load(table)), after_success=read)


main(*sys.argv[1:])
