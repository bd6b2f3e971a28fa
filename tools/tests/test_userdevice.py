"""userdevice.py: refusals, on sysfs and proc trees made for the test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dmcrypt_inline.errors import UserError
from dmcrypt_inline.userdevice import Facts, facts_of, look, may_write

DISK = "/dev/sdz"
FREE = Facts(DISK, (), (), (), "")
CRYPT = (("dm-0", "CRYPT-LUKS2-0123"),)


@dataclass(frozen=True)
class Trees:
    """A sysfs with the disk sdz (8:0) and its partition sdz1 (8:1), and a proc with nothing in use."""

    sysfs: Path
    proc: Path

    def facts(self) -> Facts:
        return facts_of(DISK, "8:0", "", self.sysfs, self.proc)

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
    assert trees.facts() == FREE


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
    assert found.mounts == ("/mnt",)
    assert found.swaps == ("/dev/dm-1",)
    assert volume.exists()


def test_the_whole_disk_of_a_partition_in_use(trees: Trees) -> None:
    trees.mapping("md0", "9:0", "", part(trees))
    with pytest.raises(UserError, match="in use by md0"):
        may_write(trees.facts(), DISK)


def test_no_block_device(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for name, why in ((str(file), "is no block device"), (str(tmp_path / "none"), "No such file")):
        with pytest.raises(UserError, match=why):
            look(name, "")
    with pytest.raises(UserError, match="is it there"):
        facts_of(DISK, "8:7", "", tmp_path, tmp_path)


def test_writing_needs_the_name_again() -> None:
    assert may_write(FREE, "") is False
    assert may_write(FREE, DISK) is True
    for other in ("/dev/sdy", "sdz", "/dev/sdz ", "/dev/../dev/sdz", "yes"):
        with pytest.raises(UserError, match="letter by letter"):
            may_write(FREE, other)


@pytest.mark.parametrize("signature", ["crypto_LUKS", "ext4"])
def test_what_can_be_repeated_is_overwritten_when_named(signature: str) -> None:
    facts = replace(FREE, signature=signature)
    assert may_write(facts, "") is False
    assert may_write(facts, DISK) is True


@pytest.mark.parametrize("signature", ["LVM2_member", "linux_raid_member", "zfs_member", "btrfs"])
def test_members_are_never_overwritten(signature: str) -> None:
    with pytest.raises(UserError, match="set of devices"):
        may_write(replace(FREE, signature=signature), DISK)


def test_unknown_contents_are_not_overwritten() -> None:
    with pytest.raises(UserError, match="blkid"):
        may_write(replace(FREE, signature=None), DISK)


@pytest.mark.parametrize("destroy", ["", DISK])
@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(FREE, mounts=("/mnt",)), "mounted on /mnt"),
        (replace(FREE, swaps=(DISK,)), "swapoff"),
        (replace(FREE, holders=(("dm-1", "LVM-0123"),)), "in use by dm-1"),
        (replace(FREE, holders=(*CRYPT, ("md0", ""))), "in use by dm-0, md0"),
        (replace(FREE, holders=CRYPT, swaps=("/dev/dm-0",)), "swap"),
    ],
)
def test_what_is_in_use_is_refused(facts: Facts, why: str, destroy: str) -> None:
    with pytest.raises(UserError, match=why):
        may_write(facts, destroy)


def test_an_open_volume_can_be_read() -> None:
    mounted = replace(FREE, holders=CRYPT, mounts=("/home",))
    assert may_write(mounted, "") is False
    for facts in (mounted, replace(mounted, mounts=())):
        with pytest.raises(UserError, match=r"mounted|can be measured while it is open"):
            may_write(facts, DISK)
