"""userdevice.py: refusals, on sysfs and proc trees made for the test."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dmcrypt_inline.bench.inguest.userdevice import (
    SEVERAL,
    Contents,
    Facts,
    UserDevice,
    admitted,
    check_again,
    facts_of,
    may_write,
    named,
)
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.run import Completed

DISK = "/dev/sdz"
FREE = Facts(DISK, (), (), (), (), (), (), Contents())
CRYPT = (("dm-0", "CRYPT-LUKS2-0123"),)


@dataclass(frozen=True)
class Trees:
    """A sysfs with the disk sdz (8:0) and its partition sdz1 (8:1), and a proc with nothing in use."""

    sysfs: Path
    proc: Path

    def facts(self) -> Facts:
        return facts_of(DISK, "8:0", Contents(), self.sysfs, self.proc)

    def block(self, name: str, number: str, below: str = "") -> Path:
        place = self.sysfs / "devices" / below / name
        (place / "holders").mkdir(parents=True)
        (place / "dev").write_text(f"{number}\n")
        (self.sysfs / "dev" / "block").mkdir(parents=True, exist_ok=True)
        (self.sysfs / "dev" / "block" / number).symlink_to(place)
        return place

    def mapping(self, name: str, number: str, uuid: str, on: Path) -> Path:
        place = self.block(name, number)
        (place / "dm").mkdir()
        (place / "dm" / "uuid").write_text(f"{uuid}\n")
        (place / "dm" / "name").write_text(f"the-{name}\n")
        (on / "holders" / name).symlink_to(place)
        return place

    def mount(self, number: str, source: str) -> None:
        line = f"30 1 {number} / /mnt rw,relatime shared:1 - ext4 {source} rw\n"
        (self.proc / "self" / "mountinfo").write_text(line)


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    made = Trees(tmp_path / "sys", tmp_path / "proc")
    (made.proc / "self").mkdir(parents=True)
    made.mount("8:99", "/dev/other")
    (made.proc / "swaps").write_text("Filename Type Size Used Priority\n/dev/other2 partition 1 0 -2\n")
    made.block("sdz", "8:0")
    part = made.block("sdz1", "8:1", below="sdz")
    (part / "partition").write_text("1\n")
    return made


def part(trees: Trees) -> Path:
    return (trees.sysfs / "dev" / "block" / "8:1").resolve()


def test_a_free_device(trees: Trees) -> None:
    assert trees.facts() == replace(FREE, partitions=("sdz1",))


@pytest.mark.parametrize("number", ["8:0", "8:1"])
def test_a_mounted_device_or_partition(trees: Trees, number: str) -> None:
    trees.mount(number, "/dev/whatever")
    assert trees.facts().mounts == ("/mnt",)


def test_a_file_system_with_a_number_of_its_own(trees: Trees) -> None:
    trees.mount("0:42", "/dev/sdz1")
    assert trees.facts().mounts == ("/mnt",)


def test_what_lies_on_a_partition(trees: Trees) -> None:
    crypt = trees.mapping("dm-0", "253:0", "CRYPT-LUKS2-0123", part(trees))
    volume = trees.mapping("dm-1", "253:1", "LVM-0123", crypt)
    trees.mount("253:1", "/dev/mapper/the-dm-1")
    (trees.proc / "swaps").write_text("Filename Type\n/dev/dm-1 partition 1 0 -2\n")
    found = trees.facts()
    assert found.holders == (("dm-0", "CRYPT-LUKS2-0123"),)
    assert (found.mounts, found.mounts_above) == ((), ("/mnt",))
    assert found.swaps == ("/dev/dm-1",)
    assert volume.exists()


def test_the_whole_disk_of_a_partition_in_use(trees: Trees) -> None:
    trees.mapping("md0", "9:0", "", part(trees))
    with pytest.raises(UserError, match="in use by md0"):
        may_write(trees.facts(), DISK)


def test_a_loop_device_over_a_partition(trees: Trees) -> None:
    loop = trees.block("loop7", "7:7")
    (loop / "loop").mkdir()
    (loop / "loop" / "backing_file").write_text("/dev/sdz1\n")
    (trees.sysfs / "block").mkdir()
    (trees.sysfs / "block" / "loop7").symlink_to(loop)
    trees.mount("7:7", "/dev/loop7")
    found = trees.facts()
    assert (found.holders, found.mounts, found.mounts_above) == ((("loop7", ""),), (), ("/mnt",))
    with pytest.raises(UserError, match="in use by loop7"):
        may_write(replace(found, mounts_above=()), "")


def test_programs_that_have_a_partition_open(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    for process in ("12", str(os.getpid()), "13"):
        (trees.proc / process / "fd").mkdir(parents=True)
        (trees.proc / process / "comm").write_text("qemu\n")
    for name in ("12/fd/0", "12/fd/3", "12/fd/4", f"{os.getpid()}/fd/3", "13/fd/3"):
        (trees.proc / name).touch()
    (trees.proc / "14").mkdir()  # has just ended
    disks = {"12/fd/3": (8, 1), "12/fd/4": (8, 1), f"{os.getpid()}/fd/3": (8, 1), "13/fd/3": (8, 2)}

    def named_in_test(node: str) -> UserDevice:
        try:
            return UserDevice(node, os.makedev(*disks[str(Path(node).relative_to(trees.proc))]))
        except KeyError:
            raise UserError("is no block device") from None

    monkeypatch.setattr("dmcrypt_inline.bench.inguest.userdevice.named", named_in_test)
    assert trees.facts().opened == ("12 (qemu)",)


def test_a_name_that_means_another_device_now(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    before = UserDevice(DISK, os.makedev(8, 0))
    now = {DISK: before}

    def admitted(given: str, destroy: str, _: object) -> bool:
        asked.append((given, destroy))
        if len(asked) == 1:
            raise UserError("open in other programs: udev, for a moment")
        return True

    def nothing(argv: Sequence[str]) -> Completed:
        raise AssertionError(f"nothing may be run: {argv}")

    monkeypatch.setattr("dmcrypt_inline.bench.inguest.userdevice.named", now.__getitem__)
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.userdevice.admitted", admitted)
    check_again(before, nothing, writes=False)
    assert asked == []
    check_again(before, nothing, writes=True)
    assert asked == [(DISK, DISK)] * 2
    now[DISK] = UserDevice(DISK, os.makedev(8, 16))
    with pytest.raises(UserError, match="not the device any more"):
        check_again(before, nothing, writes=False)


@pytest.mark.parametrize("error", [None, OSError(errno.EBUSY, os.strerror(errno.EBUSY))])
def test_what_somebody_holds_is_not_written_to(
    trees: Trees, error: OSError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = trees.sysfs / "device"
    device.write_text("")
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.userdevice.SYSFS", trees.sysfs)
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.userdevice.PROC", trees.proc)
    monkeypatch.setattr(
        "dmcrypt_inline.bench.inguest.userdevice.named", lambda _: UserDevice(str(device), os.makedev(8, 1))
    )

    def exclusively(path: str, flags: int) -> int:
        assert (path, flags) == (str(device), os.O_RDONLY | os.O_EXCL)
        if error:
            raise error
        return os.dup(0)

    monkeypatch.setattr("os.open", exclusively)

    def blkid(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, "TYPE=ext4\n", 0.0)

    if error is None:
        assert admitted(str(device), str(device), blkid)
        return
    with pytest.raises(UserError, match="is in use: Device or resource busy"):
        admitted(str(device), str(device), blkid)
    assert not admitted(str(device), "", blkid)


def test_no_block_device(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for name, why in ((str(file), "is no block device"), (str(tmp_path / "none"), "No such file")):
        with pytest.raises(UserError, match=why):
            named(name)
    with pytest.raises(UserError, match="is it there"):
        facts_of(DISK, "8:7", Contents(), tmp_path, tmp_path)


def test_writing_needs_the_name_again() -> None:
    assert may_write(FREE, "") is False
    assert may_write(FREE, DISK) is True
    for other in ("/dev/sdy", "sdz", "/dev/sdz ", "/dev/../dev/sdz", "yes"):
        with pytest.raises(UserError, match="letter by letter"):
            may_write(FREE, other)


@pytest.mark.parametrize("kind", ["crypto_LUKS", "ext4", "btrfs"])
def test_what_can_be_repeated_is_overwritten_when_named(kind: str) -> None:
    facts = replace(FREE, contents=Contents(kind))
    assert may_write(facts, "") is False
    assert may_write(facts, DISK) is True


MEMBERS_OF_ALL_KINDS = ["LVM2_member", "linux_raid_member", "zfs_member", "nvidia_raid_member", "bcache", "bcachefs"]
MEMBERS_OF_ALL_KINDS += ["drbd", "stratis", "ceph_bluestore", "DM_snapshot_cow", "swsuspend", SEVERAL]


@pytest.mark.parametrize("kind", MEMBERS_OF_ALL_KINDS)
@pytest.mark.parametrize("destroy", ["", DISK])
def test_members_are_left_alone(kind: str, destroy: str) -> None:
    with pytest.raises(UserError, match="set of devices"):
        may_write(replace(FREE, contents=Contents(kind)), destroy)


@pytest.mark.parametrize("destroy", ["", DISK])
def test_nothing_is_done_to_what_nobody_knows(destroy: str) -> None:
    with pytest.raises(UserError, match="blkid"):
        may_write(replace(FREE, contents=None), destroy)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (
            replace(FREE, partitions=("sdz1", "sdz2")),
            r"has the partitions sdz1, sdz2: name one of them, or wipefs --all",
        ),
        (replace(FREE, contents=Contents(table="gpt")), "has a partition table"),
        (replace(FREE, opened=("12 (qemu)",)), r"open in other programs: 12 \(qemu\)"),
    ],
)
def test_what_is_only_read(facts: Facts, why: str) -> None:
    assert may_write(facts, "") is False
    with pytest.raises(UserError, match=why):
        may_write(facts, DISK)


@pytest.mark.parametrize("destroy", ["", DISK])
@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(FREE, mounts=("/mnt",)), "mounted on /mnt"),
        (replace(FREE, swaps=(DISK,)), "swapoff"),
        (replace(FREE, holders=(("dm-1", "LVM-0123"),)), "in use by dm-1"),
        (replace(FREE, holders=(*CRYPT, ("md0", ""))), "in use by dm-0, md0"),
        (replace(FREE, holders=CRYPT, swaps=("/dev/dm-0",)), "swap"),
        (replace(FREE, holders=CRYPT, mounts=("/boot",)), "mounted on /boot"),
    ],
)
def test_what_is_in_use_is_refused(facts: Facts, why: str, destroy: str) -> None:
    with pytest.raises(UserError, match=why):
        may_write(facts, destroy)


def test_an_open_volume_can_be_read() -> None:
    mounted = replace(FREE, holders=CRYPT, mounts_above=("/home",))
    assert may_write(mounted, "") is False
    for facts in (mounted, replace(mounted, mounts_above=())):
        with pytest.raises(UserError, match=r"mounted|can be measured while it is open"):
            may_write(facts, DISK)
