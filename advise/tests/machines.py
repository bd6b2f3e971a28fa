"""Recorded machines, in the form that `dmcrypt_advise.recording` explains, and images of the firmware."""

import struct
from collections.abc import Mapping
from pathlib import Path

from dmcrypt_advise.recording import load
from dmcrypt_advise.system import System

MACHINES = Path(__file__).parent / "machines"
LAPTOP = "debian-12-laptop"  # its only mapping is NAME, with UUID
NAME = "nvme0n1p3_crypt"
UUID = "11111111-2222-3333-4444-555555555555"
ONE_QUEUE = {"/nvme0n1/mq/1/": "/nvme0n1/other/"}  # the disk completes in softirqs: both flags help


def machine(name: str, place: Path, changed: Mapping[str, str] | None = None) -> System:
    """Write the machine `name` below `place`. `changed` replaces texts, which must exist."""
    text = (MACHINES / f"{name}.txt").read_text()
    for old, new in (changed or {}).items():
        assert old in text
        text = text.replace(old, new)
    return load(text, place)


def unified(**sections: bytes) -> bytes:
    """An image for the firmware as systemd-stub has it, without its program: each section behind the table."""
    begin = 0x40 + 24 + 16 + 40 * len(sections)
    head = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I4sHH12xHH16x", 0x40, b"PE\0\0", 0x8664, len(sections), 16, 0)
    body = b""
    for name, data in sections.items():
        kept = data.ljust(-(-len(data) // 512) * 512, b"\0")
        head += struct.pack("<8s4I16x", f".{name}".encode(), len(data), 0, len(kept), begin + len(body))
        body += kept
    return head + body
