"""Read crypttab and the kernel command line from an initramfs. Nothing else of it is kept."""

from __future__ import annotations

import gzip
import lzma
import struct
import subprocess
import zlib

from .system import SECONDS, System

# initramfs-tools; dracut and mkinitcpio; dracut's own part of the kernel's command line.
CRYPTTABS = ("cryptroot/crypttab", "etc/crypttab", "etc/crypttab.initramfs")
COMMAND_LINES = "etc/cmdline.d/"
VERSIONS = ("usr/lib/dracut/dracut-", "lib/dracut/dracut-")
INITRAMFS_TOOLS, DRACUT = "initramfs-tools", "dracut"
PLACES = ("/boot/initrd.img-{}", "/boot/initramfs-{}.img", "/boot/initrd-{}")
DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError, struct.error, zlib.error)
PACKAGE = "/usr/lib/modules/{}/pkgbase"  # Arch Linux names the initramfs after the kernel's package
UNIFIED = ("/efi/EFI/Linux", "/boot/EFI/Linux", "/boot/efi/EFI/Linux")  # directories of unified kernel images, *.efi
HEADER = 110  # bytes of a file header in the format "newc"; from byte 6 on, each number has eight hexadecimal digits


def find_initramfs(system: System, release: str) -> tuple[str, dict[str, str]]:
    """The path of the running kernel's initramfs and its texts by name; ("", {}) if none can be read."""
    names = [release, *filter(None, [system.word(PACKAGE.format(release))])]
    places = [pattern.format(name) for name in names for pattern in PLACES]
    places += [f"{place}/{name}" for place in UNIFIED for name in system.names(place) if name.endswith(".efi")]
    for place in places:
        try:
            if not system.path(place).exists():
                continue
            if (texts := _texts(system.path(place).read_bytes(), place, release)) is not None:
                system.seen.update({f"cpio {place} {name}": text for name, text in (texts or {"init": ""}).items()})
                return place, texts
        except (*DAMAGED, subprocess.SubprocessError) as error:
            system.miss(f"initramfs: {place}: {error}")
            return "", {}
    system.miss("initramfs: none for this kernel was found in /boot under the usual names")
    return "", {}


def _texts(packed: bytes, place: str, release: str) -> dict[str, str] | None:
    """The texts of an initramfs or of a unified kernel image; None if that has another kernel."""
    if not packed.startswith(b"MZ"):
        return config_texts(packed)
    parts = image_sections(packed)
    if parts.get(".uname", b"").decode().strip("\0\n") != release:
        return None
    line = parts.get(".cmdline", b"").decode(errors="replace").strip("\0\n")
    return {**config_texts(parts.get(".initrd", b"")), f"{COMMAND_LINES}{place}": line}


def builder(texts: dict[str, str]) -> str:
    """The program that built the initramfs with these texts, "" if unknown."""
    if CRYPTTABS[0] in texts:
        return INITRAMFS_TOOLS
    return DRACUT if any(name.startswith(VERSIONS) for name in texts) else ""


def image_sections(image: bytes) -> dict[str, bytes]:
    """The sections of a unified kernel image (a PE/COFF program for the firmware), the first of each name.

    Raises ValueError or struct.error if the image is damaged or of another kind.
    """
    [at] = struct.unpack_from("<I", image, 0x3C)
    if image[at : at + 4] != b"PE\0\0":
        raise ValueError("not a unified kernel image")
    count, optional = struct.unpack_from("<H12xH", image, at + 6)
    found: dict[str, bytes] = {}
    for number in range(count):
        name, used, _, kept, begin = struct.unpack_from("<8s4I", image, at + 24 + optional + 40 * number)
        if begin + kept > len(image):
            raise ValueError("the file is truncated")
        found.setdefault(name.rstrip(b"\0").decode(errors="replace"), image[begin : begin + min(used, kept)])
    return found


def config_texts(packed: bytes) -> dict[str, str]:
    """The crypttabs, command lines and version files in an image: a sequence of archives, the last one compressed."""
    found: dict[str, str] = {}
    at = 0
    while at < len(packed):
        if packed.startswith((b"070701", b"070702"), at):
            size, named = int(packed[at + 54 : at + 62], 16), int(packed[at + 94 : at + 102], 16)
            name = packed[at + HEADER : at + HEADER + named - 1].decode(errors="replace").removeprefix("./")
            begin = -(-(at + HEADER + named) // 4) * 4
            if name in CRYPTTABS or name.startswith((COMMAND_LINES, *VERSIONS)):
                found[name] = packed[begin : begin + size].decode(errors="replace")
            at = -(-(begin + size) // 4) * 4
        elif packed[at] == 0:  # padding between archives
            at += 1
        else:
            packed, at = _unpacked(packed[at:]), 0
    return found


def _unpacked(packed: bytes) -> bytes:
    if packed.startswith(b"\x1f\x8b"):
        return gzip.decompress(packed)
    if packed.startswith((b"\xfd7zXZ", b"\x5d\x00\x00")):
        return lzma.decompress(packed)
    programs = {b"\x28\xb5\x2f\xfd": "zstd", b"\x02\x21\x4c\x18": "lz4", b"\x04\x22\x4d\x18": "lz4"}
    if packed[:4] not in programs:
        raise ValueError("unknown format: no archive, and no known compression")
    argv = [programs[packed[:4]], "-dc"]
    return subprocess.run(argv, input=packed, capture_output=True, timeout=SECONDS, check=True).stdout
