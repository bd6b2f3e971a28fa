"""devices.py: which devices are measured, and what of them is changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dmcrypt_inline import bench
from dmcrypt_inline.devices import DISKS, SERIAL, SIZE, Device, Disk, opened
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.run import Completed


def nothing(argv: Sequence[str]) -> Completed:
    raise AssertionError(f"nothing may be run: {argv}")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The disk "nvme" is a file, and has an empty directory in sysfs."""
    node = tmp_path / "disk"
    node.write_bytes(b"mine")
    (tmp_path / "sysfs" / "disk").mkdir(parents=True)
    monkeypatch.setattr("dmcrypt_inline.devices.BLOCK", tmp_path / "sysfs")
    monkeypatch.setitem(DISKS, "nvme", Disk("disk", "serial"))
    monkeypatch.setattr(Disk, "node", str(node))
    return node


@pytest.mark.parametrize(
    ("serial", "sectors", "why"),
    [
        (None, SIZE >> 9, "has no serial number"),
        ("S4EWNX0N", SIZE >> 9, "serial number is 'S4EWNX0N'"),
        (SERIAL, (SIZE >> 9) + 1, "it has 131073 sectors"),
    ],
)
def test_a_disk_that_only_has_the_name_is_not_written_to(
    disk: Path, serial: str | None, sectors: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmcrypt_inline.devices._device", lambda node, _: Device(node, sectors))
    if serial is not None:
        (disk.parent / "sysfs" / "disk" / "serial").write_text(f"{serial}     \n")
    with pytest.raises(UserError, match=why), opened("nvme", nothing):
        pass
    assert disk.read_bytes() == b"mine"


def test_the_disk_made_for_measuring_is_filled(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.devices._device", lambda node, _: Device(node, SIZE >> 9))
    (disk.parent / "sysfs" / "disk" / "serial").write_text(f"{SERIAL}     \n")
    with opened("nvme", nothing) as device:
        assert device == Device(str(disk), SIZE >> 9)
    assert disk.stat().st_size == SIZE


def test_the_guest_gets_the_disks_that_are_looked_for() -> None:
    assert set(bench.DISKS) == set(DISKS)
    assert all(f"serial={SERIAL}" in argument for argument in bench.DISKS.values())
    assert bench.DISK_SIZE == SIZE
