"""DEVICE=: which of the user's devices may be measured, and which may be written to.

Everything is decided here, from what sysfs and /proc say, before anything opens the device.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError

SYSFS, PROC = Path("/sys"), Path("/proc")
CRYPT = "CRYPT-"  # how the uuid of a mapping by cryptsetup starts
# What blkid calls the parts of a volume group or an array; they may be in use later, or elsewhere.
MEMBERS = ("LVM2_member", "LVM1_member", "linux_raid_member", "ddf_raid_member", "isw_raid_member", "zfs_member")
MEMBER_WORDS = ("bcache", "btrfs")  # likewise: one of several devices of one file system or cache


@dataclass(frozen=True)
class Facts:
    """What is known of a device: where it is used, and what is on it.

    `given` is the name as the user wrote it. `mounts` are mount points of it, of its
    partitions and of what lies on them; `swaps` likewise; `holders` maps the name of
    each block device directly on it or on a partition of it to its dm uuid ("" for
    none). `signature` is what blkid found, "" for nothing, None when nobody could look.
    """

    given: str
    mounts: tuple[str, ...]
    swaps: tuple[str, ...]
    holders: tuple[tuple[str, str], ...]
    signature: str | None


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
    if facts.swaps:
        raise UserError(f"{facts.given} is in use as swap ({', '.join(facts.swaps)}): swapoff it first")
    crypt_only = bool(facts.holders) and all(uuid.startswith(CRYPT) for _, uuid in facts.holders)
    if facts.mounts and (destroy or not crypt_only):
        raise UserError(f"{facts.given} is mounted on {', '.join(facts.mounts)}: unmount it first")
    if facts.holders and (destroy or not crypt_only):
        names = ", ".join(name for name, _ in facts.holders)
        more = "; without --destroy-data it can be measured while it is open" if crypt_only else ""
        raise UserError(f"{facts.given} is in use by {names} (LVM, RAID, device mapper): take that down first{more}")
    if not destroy:
        return False
    if facts.signature is None:
        raise UserError(f"nobody can say what is on {facts.given}: install blkid (util-linux)")
    if facts.signature in (*MEMBERS, *MEMBER_WORDS):
        raise UserError(
            f"{facts.given} may belong to a set of devices ({facts.signature}): it is not overwritten\n"
            f"  if it does not: wipefs --all {facts.given}"
        )
    return True


def look(given: str, signature: str | None, sysfs: Path = SYSFS, proc: Path = PROC) -> Facts:
    """The facts about the device `given`. Raises UserError when it is no block device."""
    try:
        status = os.stat(given)  # noqa: PTH116
    except OSError as error:
        raise UserError(f"{given}: {error.strerror}\n  DEVICE= takes the name of a block device") from error
    if not stat.S_ISBLK(status.st_mode):
        raise UserError(f"{given} is no block device\n  DEVICE= takes one, such as /dev/nvme0n1p3")
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return facts_of(given, number, signature, sysfs, proc)


def facts_of(given: str, number: str, signature: str | None, sysfs: Path, proc: Path) -> Facts:
    """The facts about the device `number` (MAJOR:MINOR). Raises UserError when sysfs does not know it."""
    place = sysfs / "dev" / "block" / number
    if not place.exists():
        raise UserError(f"{given} ({number}) is not in {sysfs}: is it there?")
    own = [place.resolve(), *_partitions(place.resolve())]
    direct = [holder for each in own for holder in _holders(each)]
    used = list(dict.fromkeys([*own, *direct, *(up for each in direct for up in _above(each))]))
    return Facts(
        given=given,
        mounts=tuple(_mounts(used, proc)),
        swaps=tuple(_swaps(used, proc)),
        holders=tuple((each.name, _text(each / "dm" / "uuid")) for each in direct),
        signature=signature,
    )


def _partitions(place: Path) -> list[Path]:
    return sorted(child.parent for child in place.glob("*/partition"))


def _holders(place: Path) -> list[Path]:
    found = place / "holders"
    return sorted(each.resolve() for each in found.iterdir()) if found.is_dir() else []


def _above(place: Path) -> Iterator[Path]:
    """All that lies on a device: its partitions, its holders, theirs."""
    for each in (*_partitions(place), *_holders(place)):
        yield each
        yield from _above(each)


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


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
