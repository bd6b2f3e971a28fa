"""DEVICE=: which of the user's devices may be measured, and which may be written to.

The kernel says whether somebody has a device to himself (O_EXCL: mounts, swap, LVM, RAID, device mapper), blkid what
is on it. What neither tells is in sysfs and /proc: loop devices over it, and programs that merely have it open.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping
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
SEVERAL = "btrfs of several devices"  # what we call them; blkid: btrfs
# What blkid calls data that makes sense only with other devices, or that another device needs;
# so does every type that ends in MEMBER.
MEMBER = "_member"
MEMBERS = (
    *("bcache", "bcachefs", "ceph_bluestore", "drbd", "drbdmanage_control_volume", "drbdproxy_datalog", "jbd"),
    *("DM_integrity", "DM_snapshot_cow", "DM_verity_hash", "mpool", "oracleasm", "stratis", "swsuspend", "vdo"),
    *("xfs_external_log", SEVERAL),
)
BTRFS_DEVICES = (1 << 16) + 136  # offset in bytes of their number, 64 bits, in the superblock


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


def contents(device: str, run: Run) -> tuple[str, str] | None:
    """What blkid finds directly on the device: the kind in its words, and the kind of partition table; "" for none.

    None when it is not installed or not sure.
    """
    tags = ("--match-tag", "TYPE", "--match-tag", "PTTYPE")
    try:
        said = run(["blkid", "--probe", "--output", "export", *tags, device]).output
    except CommandError as error:
        return ("", "") if error.completed.returncode == NOTHING_FOUND else None
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    kind = found.get("TYPE", "")
    return SEVERAL if kind == "btrfs" and _btrfs_devices(device) > 1 else kind, found.get("PTTYPE", "")


def _btrfs_devices(device: str) -> int:
    with Path(device).open("rb") as source:
        return int.from_bytes(os.pread(source.fileno(), 8, BTRFS_DEVICES), "little")


def admitted(given: str, destroy: str, run: Run) -> bool:
    """Whether the block device `given` may be overwritten (True) or only read (False), as it is now.

    `destroy` is the name given with --destroy-data, "" for none. Raises UserError,
    with what to do, when it may be neither.
    """
    if destroy and destroy != given:
        raise UserError(
            f"--destroy-data names {destroy}, the device is {given}\n"
            "  to overwrite a device, give its name twice, letter by letter: "
            f"DEVICE={given} DESTROY_DATA={given}"
        )
    number = _number(given)
    place = SYSFS / "dev" / "block" / number
    if not place.exists():
        raise UserError(f"{given} ({number}) is not in {SYSFS}: is it there?")
    nodes = {place.resolve(): given} | {each: f"/dev/{each.name}" for each in _partitions(place.resolve())}
    _check_use(given, nodes, bool(destroy))
    found = contents(given, run)
    if found is None:
        raise UserError(
            f"nobody can say what is on {given}: blkid (util-linux) is not installed, or not sure\n"
            f"  look with: wipefs {given}"
        )
    kind, table = found
    if kind.endswith(MEMBER) or kind in MEMBERS:
        more = f"\n  if it does not: wipefs --all {given}" if destroy else ""
        raise UserError(f"{given} may belong to a set of devices ({kind}): it is left alone{more}")
    if not destroy:
        return False
    if len(nodes) > 1 or table:
        names = ", ".join(each.name for each in list(nodes)[1:])
        has = f"the partitions {names}" if names else "a partition table"
        raise UserError(f"{given} has {has}: name one of them, or wipefs --all {given} first")
    if opened := list(dict.fromkeys(_opened(number))):
        raise UserError(f"{given} is open in other programs: {', '.join(opened)}")
    return True


def _check_use(given: str, nodes: Mapping[Path, str], destroy: bool) -> None:
    """Raise UserError when the device or a partition of it (`nodes`, by place in sysfs) is in use.

    Open dm-crypt volumes alone are no use of a device that is only read.
    """
    numbers = {_text(each / "dev") for each in nodes}
    if loops := [each for each in SYSFS.glob("block/loop*/loop/backing_file") if _is_one(_text(each), numbers)]:
        raise UserError(f"{given} is in use by {loops[0].parent.parent.name} (losetup): take that down first")
    whole, *partitions = nodes
    # Of a disk with a partition in use the kernel says that it is in use, too.
    held = [each for each in partitions if _is_held(nodes[each])] or [whole] * _is_held(given)
    crypt_only = all(map(_has_only_volumes, held))
    if held and (destroy or not crypt_only):
        more = "; without --destroy-data it can be measured while it is open" if crypt_only else ""
        raise UserError(
            f"{given} is in use (mounted, swap, LVM, RAID, device mapper): take that down first{more}\n"
            f"  look with: lsblk {given}"
        )


def _is_held(node: str) -> bool:
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise UserError(f"{node} cannot be opened: {error.strerror}") from error
        return True
    return False


def _has_only_volumes(place: Path) -> bool:
    """Whether what holds a device are volumes of cryptsetup, all of it."""
    uuids = [_text(holder / "dm" / "uuid") for holder in place.glob("holders/*")]
    return bool(uuids) and all(uuid.startswith(CRYPT) for uuid in uuids)


def _partitions(place: Path) -> list[Path]:
    return sorted(child.parent for child in place.glob("*/partition"))


def _opened(number: str) -> Iterator[str]:
    """The processes, except this one, that have the device open, by number and name."""
    for process in PROC.glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):  # it has ended
            for name in os.listdir(process / "fd"):  # noqa: PTH208
                if _is_one(str(process / "fd" / name), {number}):
                    yield f"{process.name} ({_text(process / 'comm')})"


def _is_one(node: str, numbers: Collection[str]) -> bool:
    """Whether this is the name of a block device with one of these numbers."""
    try:
        return _number(node) in numbers
    except UserError:  # something else, or closed meanwhile
        return False


def _number(node: str) -> str:
    found = named(node).number
    return f"{os.major(found)}:{os.minor(found)}"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
