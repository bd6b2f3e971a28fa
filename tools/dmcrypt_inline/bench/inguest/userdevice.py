"""DEVICE=: which of the user's devices may be measured, and which may be written to.

Everything is decided here, from what sysfs and /proc say and what blkid finds on the device.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...common.cleanup import retried
from ...common.errors import UserError
from ...common.run import CommandError
from .devices import Run

SYSFS, PROC = Path("/sys"), Path("/proc")
CRYPT = "CRYPT-"  # how the uuid of a mapping by cryptsetup starts
NOTHING_FOUND = 2  # blkid's exit status
# What blkid calls data that makes sense only with other devices, or that another device needs;
# so does every type that ends in MEMBER.
MEMBER = "_member"
MEMBERS = (
    *("bcache", "bcachefs", "ceph_bluestore", "drbd", "drbdmanage_control_volume", "drbdproxy_datalog", "jbd"),
    *("DM_integrity", "DM_snapshot_cow", "DM_verity_hash", "mpool", "oracleasm", "stratis", "swsuspend", "vdo"),
    "xfs_external_log",
)
BTRFS_DEVICES = (1 << 16) + 136  # offset in bytes of their number, 64 bits, in the superblock
SEVERAL = "btrfs of several devices"


@dataclass(frozen=True)
class UserDevice:
    """The device behind a name when it was looked at: the path of its node, without links, and its st_rdev."""

    path: str
    number: int


def named(given: str) -> UserDevice:
    """The device that this is the name of now. Raises UserError when it is no block device."""
    try:
        status = os.stat(given)  # noqa: PTH116
    except OSError as error:
        raise UserError(f"{given}: {error.strerror}\n  DEVICE= takes the name of a block device") from error
    if not stat.S_ISBLK(status.st_mode):
        raise UserError(f"{given} is no block device\n  DEVICE= takes one, such as /dev/nvme0n1p3")
    return UserDevice(str(Path(given).resolve()), status.st_rdev)


def check_again(device: UserDevice, run: Run, *, writes: bool) -> None:
    """Raise UserError unless the path still means the device, and it may still be written to, if it is to be."""
    if named(device.path) != device:
        raise UserError(f"{device.path} is not the device any more that it was at the start")
    if writes:
        retried(partial(admitted, device.path, device.path, run))


@dataclass(frozen=True)
class Contents:
    """What lies directly on a device: its `kind` in blkid's words, the kind of partition `table`; "" for none."""

    kind: str = ""
    table: str = ""

    @property
    def member(self) -> bool:
        """Whether other devices may need what is there, now or later."""
        return self.kind.endswith(MEMBER) or self.kind in (*MEMBERS, SEVERAL)


def contents(device: str, run: Run) -> Contents | None:
    """What blkid finds on the device; None when it is not installed or not sure."""
    tags = ("--match-tag", "TYPE", "--match-tag", "PTTYPE")
    try:
        said = run(["blkid", "--probe", "--output", "export", *tags, device]).output
    except CommandError as error:
        return Contents() if error.completed.returncode == NOTHING_FOUND else None
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    kind = found.get("TYPE", "")
    return Contents(SEVERAL if kind == "btrfs" and _btrfs_devices(device) > 1 else kind, found.get("PTTYPE", ""))


def _btrfs_devices(device: str) -> int:
    with Path(device).open("rb") as source:
        return int.from_bytes(os.pread(source.fileno(), 8, BTRFS_DEVICES), "little")


@dataclass(frozen=True)
class Facts:
    """What is known of a device: where it is used, and what is on it.

    `given` is the name as the user wrote it. `mounts` are mount points of it and of its
    partitions, `mounts_above` of what lies on them; `swaps` are both. `holders` maps the name
    of each block device directly on it or on a partition of it to its dm uuid ("" for
    none). `opened` are the other processes that have any of these open. `partitions` are
    their names; `contents` None when nobody could look.
    """

    given: str
    mounts: tuple[str, ...]
    mounts_above: tuple[str, ...]
    swaps: tuple[str, ...]
    holders: tuple[tuple[str, str], ...]
    opened: tuple[str, ...]
    partitions: tuple[str, ...]
    contents: Contents | None


def may_write(facts: Facts, destroy: str) -> bool:
    """Whether the device may be overwritten (True) or only read (False).

    `destroy` is the name given with --destroy-data, "" for none. Raises UserError,
    with what to do, when it may be neither.
    """
    if destroy and destroy != facts.given:
        raise UserError(
            f"--destroy-data names {destroy}, the device is {facts.given}\n"
            "  to overwrite a device, give its name twice, letter by letter: "
            f"DEVICE={facts.given} DESTROY_DATA={facts.given}"
        )
    _check_use(facts, bool(destroy))
    found = facts.contents
    if found is None:
        raise UserError(
            f"nobody can say what is on {facts.given}: blkid (util-linux) is not installed, or not sure\n"
            f"  look with: wipefs {facts.given}"
        )
    if found.member:
        more = f"\n  if it does not: wipefs --all {facts.given}" if destroy else ""
        raise UserError(f"{facts.given} may belong to a set of devices ({found.kind}): it is left alone{more}")
    if not destroy:
        return False
    if facts.partitions or found.table:
        has = f"the partitions {', '.join(facts.partitions)}" if facts.partitions else "a partition table"
        raise UserError(f"{facts.given} has {has}: name one of them, or wipefs --all {facts.given} first")
    if facts.opened:
        raise UserError(f"{facts.given} is open in other programs: {', '.join(facts.opened)}")
    return True


def _check_use(facts: Facts, destroy: bool) -> None:
    if facts.swaps:
        raise UserError(f"{facts.given} is in use as swap ({', '.join(facts.swaps)}): swapoff it first")
    crypt_only = bool(facts.holders) and all(uuid.startswith(CRYPT) for _, uuid in facts.holders)
    excused = crypt_only and not destroy  # an open volume may be used while it is only read
    if mounts := (*facts.mounts, *(() if excused else facts.mounts_above)):
        raise UserError(f"{facts.given} is mounted on {', '.join(mounts)}: unmount it first")
    if facts.holders and not excused:
        names = ", ".join(name for name, _ in facts.holders)
        more = "; without --destroy-data it can be measured while it is open" if crypt_only else ""
        raise UserError(
            f"{facts.given} is in use by {names} (LVM, RAID, device mapper, loop): take that down first{more}"
        )


def admitted(given: str, destroy: str, run: Run) -> bool:
    """What may_write says of the block device `given` as it is now; to be written to, nobody may hold it either."""
    writes = may_write(facts_of(given, _number(given), contents(given, run), SYSFS, PROC), destroy)
    if writes:
        try:
            os.close(os.open(given, os.O_RDONLY | os.O_EXCL))
        except OSError as error:
            raise UserError(f"{given} is in use: {error.strerror}") from error
    return writes


def facts_of(given: str, number: str, found: Contents | None, sysfs: Path, proc: Path) -> Facts:
    """The facts about the device `number` (MAJOR:MINOR). Raises UserError when sysfs does not know it."""
    place = sysfs / "dev" / "block" / number
    if not place.exists():
        raise UserError(f"{given} ({number}) is not in {sysfs}: is it there?")
    partitions = _partitions(place.resolve())
    own = [place.resolve(), *partitions]
    direct = [holder for each in own for holder in _holders(each, sysfs)]
    above = list(dict.fromkeys([*direct, *(up for each in direct for up in _above(each, sysfs))]))
    return Facts(
        given,
        mounts=tuple(_mounts(own, proc)),
        mounts_above=tuple(_mounts(above, proc)),
        swaps=tuple(_swaps([*own, *above], proc)),
        holders=tuple((each.name, _text(each / "dm" / "uuid")) for each in direct),
        opened=tuple(dict.fromkeys(_opened([*own, *above], proc))),
        partitions=tuple(each.name for each in partitions),
        contents=found,
    )


def _partitions(place: Path) -> list[Path]:
    return sorted(child.parent for child in place.glob("*/partition"))


def _holders(place: Path, sysfs: Path) -> list[Path]:
    """What the kernel shows as such, and loop devices, which it does not."""
    found = place / "holders"
    held = sorted(each.resolve() for each in found.iterdir()) if found.is_dir() else []
    loops = [
        each.parent.parent.resolve()
        for each in sorted(sysfs.glob("block/loop*/loop/backing_file"))
        if _text(each) in _nodes([place])
    ]
    return [*held, *loops]


def _above(place: Path, sysfs: Path) -> Iterator[Path]:
    """All that lies on a device: its partitions, its holders, theirs."""
    for each in (*_partitions(place), *_holders(place, sysfs)):
        yield each
        yield from _above(each, sysfs)


def _opened(used: list[Path], proc: Path) -> Iterator[str]:
    """The processes, except this one, that have one of the devices open, by number and name."""
    numbers = {_text(each / "dev") for each in used}
    for process in proc.glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):  # it has ended
            for name in os.listdir(process / "fd"):  # noqa: PTH208
                with suppress(UserError):  # something else, or closed meanwhile
                    if _number(str(process / "fd" / name)) in numbers:
                        yield f"{process.name} ({_text(process / 'comm')})"


def _mounts(used: list[Path], proc: Path) -> Iterator[str]:
    """Mount points; by number, and by source for file systems that have a number of their own."""
    numbers = {_text(each / "dev") for each in used}
    names = _nodes(used)
    for line in _text(proc / "self" / "mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, source = left.split(), right.split()[1] if len(right.split()) > 1 else ""
        if fields[2] in numbers or source in names:
            yield fields[4]


def _swaps(used: list[Path], proc: Path) -> Iterator[str]:
    names = _nodes(used)
    for line in _text(proc / "swaps").splitlines()[1:]:
        name = line.split()[0]
        if name in names:
            yield name


def _nodes(used: list[Path]) -> set[str]:
    """The nodes in /dev by which devices are known."""
    found = {f"/dev/{each.name}" for each in used}
    return found | {f"/dev/mapper/{name}" for each in used if (name := _text(each / "dm" / "name"))}


def _number(node: str) -> str:
    found = named(node).number
    return f"{os.major(found)}:{os.minor(found)}"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
