"""userdevice.py: refusals, on sysfs and proc trees made for the test, and what blkid says of real images."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from dmcrypt_inline.bench.inguest import userdevice
from dmcrypt_inline.bench.inguest.userdevice import (
    SEVERAL,
    UserDevice,
    admitted,
    check_again,
    contents,
    named,
)
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.run import Completed, run

DISK = "/dev/sdz"
WHERE_BLKID_IS = "/usr/sbin:/sbin:/usr/bin:/bin"
MIB = 1 << 20


class UsersDisk:
    """A sysfs with the disk sdz (8:0), a proc without processes, and what may not be opened exclusively."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.sysfs, self.proc = place / "sys", place / "proc"
        self.held: set[str] = set()
        self.open = os.open
        self.numbers = {DISK: (8, 0)}
        self.contents: tuple[str, str] | None = ("", "")
        (self.sysfs / "dev" / "block").mkdir(parents=True)
        self.disk = self.block("sdz", "8:0")
        patch.setattr(userdevice, "SYSFS", self.sysfs)
        patch.setattr(userdevice, "PROC", self.proc)
        patch.setattr(userdevice, "named", self.named)
        patch.setattr(userdevice, "contents", lambda *_: self.contents)
        patch.setattr("os.open", self.opened)

    def named(self, node: str) -> UserDevice:
        if node not in self.numbers:
            raise UserError("is no block device")
        return UserDevice(node, os.makedev(*self.numbers[node]))

    def opened(self, node: str, flags: int, *mode: int) -> int:
        if flags != os.O_RDONLY | os.O_EXCL:
            return self.open(node, flags, *mode)
        if node in self.held:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return os.dup(0)

    def block(self, name: str, number: str) -> Path:
        place = self.sysfs / "devices" / name
        (place / "holders").mkdir(parents=True)
        (place / "dev").write_text(f"{number}\n")
        (self.sysfs / "dev" / "block" / number).symlink_to(place)
        return place

    def partition(self, name: str) -> Path:
        place = self.block(f"sdz/{name}", f"8:{name[-1]}")
        (place / "partition").write_text("1\n")
        return place

    def hold(self, node: str, place: Path, *uuids: str) -> None:
        self.held.add(node)
        for number, uuid in enumerate(uuids):
            (place / "holders" / f"dm-{number}" / "dm").mkdir(parents=True)
            (place / "holders" / f"dm-{number}" / "dm" / "uuid").write_text(f"{uuid}\n")

    def may_write(self, destroy: str = "") -> bool:
        return admitted(DISK, destroy, nothing)

    def refuses(self, why: str, *destroy: str) -> None:
        for name in destroy or ("", DISK):
            with pytest.raises(UserError, match=why):
                self.may_write(name)

    def only_reads(self, why: str) -> None:
        assert self.may_write() is False
        self.refuses(why, DISK)


def nothing(argv: Sequence[str]) -> Completed:
    raise AssertionError(f"nothing may be run: {argv}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UsersDisk:
    return UsersDisk(tmp_path, monkeypatch)


def test_writing_needs_the_name_again(machine: UsersDisk) -> None:
    assert machine.may_write() is False
    assert machine.may_write(DISK) is True
    for other in ("/dev/sdy", "sdz", "/dev/sdz ", "/dev/../dev/sdz", "yes"):
        machine.refuses("letter by letter", other)


def test_what_somebody_has_to_himself_is_refused(machine: UsersDisk) -> None:
    machine.hold(DISK, machine.disk)  # a file system, or swap
    machine.refuses("is in use")
    machine.hold(DISK, machine.disk, "CRYPT-LUKS2-0123", "LVM-0123")
    machine.refuses("is in use")


def test_a_disk_with_a_partition_in_use_is_refused(machine: UsersDisk) -> None:
    machine.hold("/dev/sdz1", machine.partition("sdz1"), "CRYPT-LUKS2-0123")
    machine.hold("/dev/sdz2", machine.partition("sdz2"))
    machine.hold(DISK, machine.disk)  # as the kernel has it
    machine.refuses("is in use")
    machine.held.remove("/dev/sdz2")
    machine.only_reads("can be measured while it is open")


def test_an_open_volume_can_be_read(machine: UsersDisk) -> None:
    machine.hold(DISK, machine.disk, "CRYPT-LUKS2-0123")
    machine.only_reads("can be measured while it is open")


def test_a_loop_device_over_a_partition_is_a_use(machine: UsersDisk) -> None:
    machine.partition("sdz1")
    for name, file in (("loop6", "/a/file"), ("loop7", "/dev/sdz1")):
        place = machine.sysfs / "block" / name / "loop"
        place.mkdir(parents=True)
        (place / "backing_file").write_text(f"{file}\n")
    assert machine.may_write() is False
    machine.numbers["/dev/sdz1"] = (8, 1)
    machine.refuses("in use by loop7")


def test_what_a_program_has_open_is_only_read(machine: UsersDisk) -> None:
    for process in ("12", str(os.getpid()), "13"):
        (machine.proc / process / "fd").mkdir(parents=True)
        (machine.proc / process / "comm").write_text("qemu\n")
    for name, number in ((f"{os.getpid()}/fd/3", (8, 0)), ("12/fd/0", None), ("13/fd/3", (8, 2))):
        (machine.proc / name).touch()
        if number:
            machine.numbers[str(machine.proc / name)] = number
    (machine.proc / "14").mkdir()  # has just ended
    assert machine.may_write(DISK)
    machine.numbers[str(machine.proc / "12/fd/0")] = (8, 0)
    machine.only_reads(r"open in other programs: 12 \(qemu\)")


def test_a_disk_with_partitions_is_only_read(machine: UsersDisk) -> None:
    machine.contents = ("", "gpt")
    machine.only_reads("has a partition table")
    machine.partition("sdz1")
    machine.partition("sdz2")
    machine.only_reads("has the partitions sdz1, sdz2: name one of them, or wipefs --all")


@pytest.mark.parametrize("kind", ["crypto_LUKS", "ext4", "btrfs"])
def test_what_can_be_repeated_is_overwritten_when_named(machine: UsersDisk, kind: str) -> None:
    machine.contents = (kind, "")
    assert machine.may_write() is False
    assert machine.may_write(DISK) is True


@pytest.mark.parametrize("kind", ["LVM2_member", "linux_raid_member", "zfs_member", "bcache", "swsuspend", SEVERAL])
def test_members_are_left_alone(machine: UsersDisk, kind: str) -> None:
    machine.contents = (kind, "")
    machine.refuses("set of devices")


def test_nothing_is_done_to_what_nobody_knows(machine: UsersDisk) -> None:
    machine.contents = None
    machine.refuses("blkid")


def test_no_block_device(tmp_path: Path, machine: UsersDisk) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for name, why in ((str(file), "is no block device"), (str(tmp_path / "none"), "No such file")):
        with pytest.raises(UserError, match=why):
            named(name)
    machine.numbers[DISK] = (8, 7)
    machine.refuses("is it there")


def test_a_name_that_means_another_device_now(machine: UsersDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.common.cleanup.PAUSE", 0)
    before = machine.named(DISK)
    check_again(before, nothing, writes=True)
    machine.held.add(DISK)
    check_again(before, nothing, writes=False)
    with pytest.raises(UserError, match="is in use"):
        check_again(before, nothing, writes=True)
    machine.numbers[DISK] = (8, 16)
    with pytest.raises(UserError, match="not the device any more"):
        check_again(before, nothing, writes=False)


MEMBER = b"SnAp" + b"".join(number.to_bytes(4, "little") for number in (1, 1, 8))
SWAP = (1).to_bytes(4, "little") + (2047).to_bytes(4, "little") + bytes(4) + b"0123456789abcdef"
# Active no, start, type Linux LVM, end, first sector 2048, 4096 sectors.
ENTRY = bytes([0, 0, 33, 0, 0x8E, 0, 66, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")


def image(path: Path, parts: dict[int, bytes]) -> str:
    data = bytearray(8 * MIB)
    for offset, part in parts.items():
        data[offset : offset + len(part)] = part
    path.write_bytes(data)
    return str(path)


@pytest.mark.skipif(shutil.which("blkid", path=WHERE_BLKID_IS) is None, reason="needs blkid")
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, ("", "")),
        ({440: b"disk", 446: ENTRY, 510: b"\x55\xaa"}, ("", "dos")),
        ({0: MEMBER}, ("DM_snapshot_cow", "")),
        ({0: MEMBER, 4086: b"SWAPSPACE2", 1024: SWAP}, None),  # two things at once: it is not sure
    ],
)
def test_what_blkid_says(tmp_path: Path, parts: dict[int, bytes], expected: tuple[str, str] | None) -> None:
    made = image(tmp_path / "image", parts)
    asked = partial(run, log=tmp_path / "blkid.log", timeout=60)
    assert contents(made, partial(asked, env={"PATH": WHERE_BLKID_IS})) == expected
    assert contents(made, partial(asked, env={"PATH": str(tmp_path)})) is None


@pytest.mark.parametrize(("devices", "kind"), [(1, "btrfs"), (2, SEVERAL)])
def test_a_btrfs_of_several_devices(tmp_path: Path, devices: int, kind: str) -> None:
    superblock = 64 << 10
    made = image(tmp_path / "image", {superblock + 64: b"_BHRfS_M", superblock + 136: devices.to_bytes(8, "little")})

    def blkid(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, f"DEVNAME={made}\nTYPE=btrfs\n", 0.0)

    assert contents(made, blkid) == (kind, "")
