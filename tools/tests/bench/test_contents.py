"""userdevice.py: real images, and what blkid says of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from dmcrypt_inline.bench.inguest.userdevice import SEVERAL, Contents, contents
from dmcrypt_inline.common.run import Completed, run

MIB = 1 << 20


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(bytes(8 * MIB))
    return path


def write(image: Path, offset: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def found(image: Path, path: str = "/usr/sbin:/sbin:/usr/bin:/bin") -> Contents | None:
    return contents(str(image), partial(run, log=image.with_name("blkid.log"), timeout=60, env={"PATH": path}))


needs_blkid = pytest.mark.skipif(
    shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin:/bin") is None, reason="needs blkid"
)


@needs_blkid
def test_nothing(image: Path) -> None:
    assert found(image) == Contents()


@needs_blkid
def test_a_partition_table(image: Path) -> None:
    # One entry: active no, start, type Linux LVM, end, first sector 2048, 4096 sectors.
    entry = bytes([0, 0, 33, 0, 0x8E, 0, 66, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    write(image, 440, b"disk")
    write(image, 446, entry)
    write(image, 510, b"\x55\xaa")
    assert found(image) == Contents(table="dos")


@needs_blkid
def test_a_member(image: Path) -> None:
    write(image, 0, b"SnAp" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + (8).to_bytes(4, "little"))
    assert found(image) == Contents("DM_snapshot_cow")


@needs_blkid
def test_two_things_at_once_are_not_sure(image: Path) -> None:
    write(image, 0, b"SnAp" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + (8).to_bytes(4, "little"))
    write(image, 4086, b"SWAPSPACE2")
    write(image, 1024, (1).to_bytes(4, "little") + (2047).to_bytes(4, "little") + bytes(4) + b"0123456789abcdef")
    assert found(image) is None


def test_without_blkid(image: Path) -> None:
    assert found(image, str(image.parent)) is None


@pytest.mark.parametrize(("devices", "kind"), [(1, "btrfs"), (2, SEVERAL)])
def test_a_btrfs_of_several_devices(image: Path, devices: int, kind: str) -> None:
    superblock = 64 << 10
    write(image, superblock + 64, b"_BHRfS_M")
    write(image, superblock + 136, devices.to_bytes(8, "little"))

    def blkid(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, f"DEVNAME={image}\nTYPE=btrfs\n", 0.0)

    assert contents(str(image), blkid) == Contents(kind)
