"""What an initramfs says of mappings: its crypttab and command line. Nothing else in it is kept."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import zlib
from collections.abc import Iterator

from .system import SECONDS, System

# initramfs-tools; dracut and mkinitcpio; dracut's own part of the kernel's command line.
CRYPTTABS = ("cryptroot/crypttab", "etc/crypttab", "etc/crypttab.initramfs")
COMMAND_LINES = "etc/cmdline.d/"
PLACES = ("/boot/initrd.img-{}", "/boot/initramfs-{}.img", "/boot/initrd-{}")
PACKAGE = "/usr/lib/modules/{}/pkgbase"  # Arch Linux names the initramfs after the kernel's package
HEADER = 110  # bytes of a file's header in the format "newc", each number eight hexadecimal digits from byte 6 on


def look(system: System, release: str) -> tuple[str, dict[str, str]]:
    """The path of the running kernel's initramfs and its texts by name; ("", {}) where there is none to be read."""
    names = [release, *filter(None, [system.word(PACKAGE.format(release))])]
    for place in (pattern.format(name) for name in names for pattern in PLACES):
        try:
            packed = system.path(place).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            system.miss(f"initramfs: {place}: {error.strerror}")
            return "", {}
        try:
            return place, texts(packed)
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, subprocess.SubprocessError) as error:
            system.miss(f"initramfs: {place}: {error}")
            return "", {}
    system.miss("initramfs: none of this kernel is in /boot under a name that is known here")
    return "", {}


def texts(packed: bytes) -> dict[str, str]:
    """The texts of interest in an image: archives one after the other, the last one compressed."""
    found: dict[str, str] = {}
    at = 0
    while at < len(packed):
        if packed[at : at + 6] in (b"070701", b"070702"):
            at = _read(packed, at, found)
        elif packed[at] == 0:  # between archives
            at += 1
        else:
            packed, at = _unpacked(packed[at:]), 0
    return found


def _read(archive: bytes, at: int, found: dict[str, str]) -> int:
    """Read one archive from `at` on; returns where it ends."""
    for name, begin, end, after in _members(archive, at):
        at = after
        if name in CRYPTTABS or name.startswith(COMMAND_LINES):
            found[name] = archive[begin:end].decode(errors="replace")
    return at


def _members(archive: bytes, at: int) -> Iterator[tuple[str, int, int, int]]:
    while archive[at : at + 5] == b"07070":
        header = archive[at : at + HEADER]
        size, named = int(header[54:62], 16), int(header[94:102], 16)
        name = archive[at + HEADER : at + HEADER + named - 1].decode(errors="replace")
        name = name.removeprefix("./")
        begin = -(-(at + HEADER + named) // 4) * 4
        at = -(-(begin + size) // 4) * 4
        if name == "TRAILER!!!":
            yield name, 0, 0, at
            return
        yield name, begin, begin + size, at


def _unpacked(packed: bytes) -> bytes:
    if packed.startswith(b"\x1f\x8b"):
        return gzip.decompress(packed)
    if packed.startswith((b"\xfd7zXZ", b"\x5d\x00\x00")):
        return lzma.decompress(packed)
    programs = {b"\x28\xb5\x2f\xfd": "zstd", b"\x02\x21\x4c\x18": "lz4", b"\x04\x22\x4d\x18": "lz4"}
    if packed[:4] not in programs:
        raise ValueError("neither an archive nor a compression that is known here")
    argv = [programs[packed[:4]], "-dc"]
    return subprocess.run(argv, input=packed, capture_output=True, timeout=SECONDS, check=True).stdout
