# SPDX-License-Identifier: GPL-2.0
"""Ioctls of the device mapper for a mapping of one target, without another program's allocations."""

import fcntl
import os
import struct

SUSPEND, LOAD, CLEAR, STATUS, MESSAGE = 6, 9, 10, 12, 14  # include/uapi/linux/dm-ioctl.h
SUSPENDED, TABLE, INACTIVE = 1 << 1, 1 << 4, 1 << 12
HEADER = struct.Struct("=3I3IiI2IQ128s129s7x")  # struct dm_ioctl
TARGET = struct.Struct("=2QiI16s")  # struct dm_target_spec
SIZE = 16384  # of a call, with what it returns


class Mapping:
    """A mapping by its name in the device mapper. All methods raise OSError."""

    def __init__(self, name):
        self.name = name.encode()
        self.control = os.open("/dev/mapper/control", os.O_RDWR)

    def call(self, command, data=b"", flags=0, targets=0):
        header = HEADER.pack(4, 0, 0, SIZE, HEADER.size, targets, 0, flags, 0, 0, 0, self.name, b"")
        buffer = bytearray((header + data).ljust(SIZE, b"\0"))
        fcntl.ioctl(self.control, 3 << 30 | HEADER.size << 16 | 0xFD << 8 | command, buffer)
        return bytes(buffer[HEADER.size :])

    def load(self, table):
        """Load a table as dmsetup prints it: START SECTORS TARGET PARAMETERS."""
        start, sectors, target, parameters = table.split(" ", 3)
        text = parameters.encode(errors="surrogateescape") + b"\0"
        spec = TARGET.pack(int(start), int(sectors), 0, TARGET.size + len(text), target.encode())
        self.call(LOAD, spec + text, targets=1)

    def loaded(self):
        """The table that is loaded and not yet active, as dmsetup prints it."""
        said = self.call(STATUS, flags=TABLE | INACTIVE)
        start, sectors, _, _, target = TARGET.unpack_from(said)
        words = (str(start).encode(), str(sectors).encode(), target, said[TARGET.size :])
        return b" ".join(word.split(b"\0")[0] for word in words).decode(errors="surrogateescape")

    def clear(self):
        self.call(CLEAR)

    def suspend(self):
        self.call(SUSPEND, flags=SUSPENDED)

    def resume(self):
        self.call(SUSPEND)

    def message(self, text):
        self.call(MESSAGE, bytes(8) + text.encode(errors="surrogateescape") + b"\0")
