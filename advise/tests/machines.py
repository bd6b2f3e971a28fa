"""Machines as text, in place of a real one.

`==> /path <==` starts a file, `==> /path/ <==` is an empty directory, `==> $ command <==` starts the output of a
program, `==> cpio IMAGE MEMBER <==` a file in an initramfs.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from dmcrypt_advise.system import System

HEAD = re.compile(r"^==> (.*) <==\n", re.MULTILINE)
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


def load(text: str, place: Path, *, is_root: bool = True) -> System:
    """Write the machine that a text describes below `place`."""
    recorded: dict[str, str] = {}
    images: dict[str, dict[str, str]] = {}
    files: dict[str, bytes] = {}
    parts = HEAD.split(text)[1:]
    for head, content in zip(parts[::2], parts[1::2], strict=True):
        if head.startswith("$ "):
            recorded[head.removeprefix("$ ")] = content
        elif head.startswith("cpio "):
            _, image, member = head.split(" ", 2)
            images.setdefault(image, {})[member] = content
        elif head.endswith("/"):
            (place / head.lstrip("/")).mkdir(parents=True, exist_ok=True)
        else:
            files[head] = content.encode()
    write(place, files | {image: archive(members) for image, members in images.items()})
    return System(place, recorded, is_root)


def write(place: Path, contents: Mapping[str, bytes]) -> None:
    for name, content in contents.items():
        path = place / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def archive(members: Mapping[str, str]) -> bytes:
    """A cpio archive, as an initramfs has it."""
    made = b""
    for name, text in {**members, "TRAILER!!!": ""}.items():
        body = text.encode()
        numbers = (1, 0o100644, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name.encode()) + 1, 0)
        made += b"070701" + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0"
        made += b"\0" * (-len(made) % 4) + body
        made += b"\0" * (-len(made) % 4)
    return made
