"""Read crypttab from an initramfs. Nothing else of it is kept."""

import gzip
import lzma
import re
import subprocess
import zlib
from typing import NamedTuple

from .system import SECONDS, System

# initramfs-tools; dracut and mkinitcpio
CRYPTTABS = ("cryptroot/crypttab", "etc/crypttab", "etc/crypttab.initramfs")
INITRAMFS_TOOLS, DRACUT, MKINITCPIO = "initramfs-tools", "dracut", "mkinitcpio"
# Files that tell what built an initramfs, or what it has to open a volume.
MARKS = {
    INITRAMFS_TOOLS: re.compile(r"cryptroot/crypttab|scripts/local-top/cryptroot|conf/initramfs\.conf"),
    DRACUT: re.compile(r"(usr/)?lib/dracut/dracut-[^/]*"),
    "cryptroot-ask": re.compile(r"(usr/)?s?bin/cryptroot-ask"),
    "systemd": re.compile(r"(usr/)?lib/systemd/(systemd|(\S+/)?systemd-cryptsetup(-generator)?)"),
    MKINITCPIO: re.compile(r"buildconfig|hooks/encrypt|config"),
    "encrypt": re.compile(r"(usr/lib/initcpio/)?hooks/encrypt"),
    "booster": re.compile(r"etc/booster\.init\.yaml"),
    "ZFSBootMenu": re.compile(r".*zfsbootmenu[^/]*"),
}
NAMES = ("initrd.img-{}", "initramfs-{}.img", "initrd-{}")
DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error)
# Arch Linux and Manjaro name the initramfs after the kernel's package.
PACKAGES = ("/usr/lib/modules/{}/pkgbase", "/usr/lib/modules/{}/kernelbase")
ESPS = ("/boot", "/efi", "/boot/efi")  # where the partition of the boot loader may be mounted
HEADER = 110  # bytes of a file header in the format "newc"; from byte 6 on, each number has eight hexadecimal digits


class Image(NamedTuple):
    """An initramfs: its path, "" if none was read, and its texts by name; files that only mark a builder are empty."""

    place: str
    texts: dict[str, str]

    def has(self, mark: str) -> bool:
        """True if the initramfs has a file of MARKS[mark]."""
        return any(MARKS[mark].fullmatch(name) for name in self.texts)


def find_initramfs(system: System, release: str) -> Image:
    """The running kernel's initramfs."""
    for place in possible_places(system, release):
        try:
            if not system.path(place).is_file():
                continue
            return Image(place, config_texts(system.path(place).read_bytes()))
        except PermissionError as error:
            system.miss(f"initramfs: {place}: {error.strerror}")
        except (*DAMAGED, subprocess.SubprocessError) as error:
            system.miss(f"initramfs: {place}: {error}")
            return Image("", {})
    system.miss("initramfs: none for this kernel was found in /boot under the usual names")
    return Image("", {})


def possible_places(system: System, release: str) -> list[str]:
    """The paths at which the running kernel's initramfs may be, the most certain first."""
    words = (system.read("/proc/cmdline") or "").split()
    values = {key: value for key, _, value in (word.partition("=") for word in words)}
    places = []
    if "initrd" in values:  # the boot loader's own argument, the last one of several
        path = values["initrd"].replace("\\", "/")
        places += [f"{esp}/{path.lstrip('/')}" for esp in ESPS]
    kernel = re.sub(r"^\([^)]*\)", "", values.get("BOOT_IMAGE", ""))  # GRUB puts the partition in front
    directory, _, name = kernel.rpartition("/")
    named = [name.removeprefix("vmlinuz-")] if name.startswith("vmlinuz-") else []
    packages = filter(None, (system.word(path.format(release)) for path in PACKAGES))
    names = dict.fromkeys([release, *packages, *named])
    directories = dict.fromkeys(["/boot", directory, f"/boot{directory}"])
    places += [f"{where}/{pattern.format(each)}" for each in names for where in directories for pattern in NAMES]
    for esp in ESPS:
        places += _entries(system, esp, release)
        for where in system.names(esp):  # <machine id or distribution>/<release>/initrd
            found = system.names(f"{esp}/{where}/{release}") if system.exists(f"{esp}/{where}/{release}") else []
            places += [f"{esp}/{where}/{release}/{it}" for it in found if it.startswith(("initrd", "initramfs"))]
    return places + [f"/usr/lib/modules/{release}/{it}" for it in ("initramfs.img", "initrd")]


def _entries(system: System, esp: str, release: str) -> list[str]:
    """The last initrd of each boot loader entry for a kernel, the newest entry first."""
    found = []
    for name in reversed(system.names(f"{esp}/loader/entries")):
        text = system.read(f"{esp}/loader/entries/{name}", wanted="boot loader entry") or ""
        fields = re.findall(r"^(version|linux|initrd)[ \t]+(\S+)", text, re.MULTILINE)
        initrds = [value for key, value in fields if key == "initrd"]
        if initrds and any(release in value for key, value in fields if key != "initrd"):
            found.append(f"{esp}/{initrds[-1].lstrip('/')}")
    return found


def builder(image: Image) -> str:
    """The program that built an initramfs, "" if unknown."""
    return next((each for each in (INITRAMFS_TOOLS, DRACUT, MKINITCPIO) if image.has(each)), "")


def config_texts(packed: bytes) -> dict[str, str]:
    """The crypttabs and MARKS in an image: a sequence of archives, the last one compressed."""
    found: dict[str, str] = {}
    at = 0
    while at < len(packed):
        if packed.startswith((b"070701", b"070702"), at):
            size, named = int(packed[at + 54 : at + 62], 16), int(packed[at + 94 : at + 102], 16)
            name = packed[at + HEADER : at + HEADER + named - 1].decode(errors="replace").removeprefix(".").lstrip("/")
            begin = -(-(at + HEADER + named) // 4) * 4
            if name in CRYPTTABS:
                found[name] = packed[begin : begin + size].decode(errors="replace")
            elif any(mark.fullmatch(name) for mark in MARKS.values()):
                found[name] = ""
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
