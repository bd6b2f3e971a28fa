"""Recorded machines, each a text file: `==> /path <==` starts a file, `==> $ command <==` the output of a program,
`==> /path/ <==` is an empty directory."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path

from dmcrypt_advise.system import System

MACHINES = Path(__file__).parent / "machines"


def machine(name: str, place: Path, changed: Mapping[str, str] | None = None) -> System:
    """Write the machine `name` below `place`. `changed` replaces texts, which must exist."""
    text = (MACHINES / f"{name}.txt").read_text()
    for old, new in (changed or {}).items():
        assert old in text
        text = text.replace(old, new)
    return load(text, place)


def load(text: str, place: Path, *, is_root: bool = True) -> System:
    """Write the machine that a text describes below `place`."""
    recorded: dict[str, str] = {}
    parts = re.split(r"^==> (.*) <==\n", text, flags=re.MULTILINE)[1:]
    for head, content in zip(parts[::2], parts[1::2], strict=True):
        if head.startswith("$ "):
            recorded[head.removeprefix("$ ")] = content
            continue
        path = place / head.lstrip("/")
        if head.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return System(place, recorded, is_root)


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


def archive(**files: str) -> bytes:
    """A cpio archive as an initramfs has it."""
    made = b""
    for name, text in {**files, "TRAILER!!!": ""}.items():
        head = b"070701" + b"".join(b"%08X" % n for n in (1, 0, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name) + 1, 0))
        made += head + name.encode() + b"\0"
        made += b"\0" * (-len(made) % 4) + text.encode()
        made += b"\0" * (-len(made) % 4)
    return made
