"""The running kernel's version as upstream counts, and which of the known defects it has."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .system import System

DEFECTS = Path(__file__).with_name("defects.toml")
FLAGS_SINCE, FLAGS_SINCE_TARGET = (5, 9), (1, 22)  # the first versions of Linux and of its dm-crypt with the flags
Version = tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """`release` as uname has it, `version` as upstream counts. `exact`: the last number of `version` is known.

    `target` is the version of dm-crypt, which no fix has changed; () where it was not seen.
    `distribution`: somebody else than upstream made it, who may have added fixes, also without a new number.
    """

    release: str
    version: Version
    exact: bool
    distribution: bool
    target: Version = ()

    @property
    def has_flags(self) -> bool:
        """Whether its dm-crypt knows both flags."""
        return self.target >= FLAGS_SINCE_TARGET if self.target else self.version >= FLAGS_SINCE


@dataclass(frozen=True)
class Defect:
    """A row of defects.toml, which says what its fields mean."""

    what: str
    flags: tuple[str, ...]
    since: Version
    also: tuple[Version, ...]
    fixed: Version | None
    stable: tuple[Version, ...]
    commit: str
    takes: frozenset[str]
    effect: str


def look(system: System, *, dm_crypt: bool) -> Kernel:
    """The running kernel; a distribution's own number is looked for where /proc says it.

    `dm_crypt`: it is in use, so that its version can be asked for.
    """
    release = system.word("/proc/sys/kernel/osrelease")
    built = system.word("/proc/version")
    debian = re.search(r"#\d+ .*Debian (\d+\.\d+\.\d+)-", built)  # the release has the ABI's number, not the version's
    ubuntu = re.fullmatch(r"Ubuntu \S+ (\d+\.\d+\.\d+)", system.word("/proc/version_signature"))
    said = debian or ubuntu
    version = parse_version(said[1] if said else release)
    targets = system.ask(("dmsetup", "targets"), "version of dm-crypt") if dm_crypt else None
    seen = re.search(r"^crypt +v(\S+)", targets or "", re.MULTILINE)
    target = parse_version(seen[1] if seen else "")
    # Red Hat's and SUSE's number only says where they began, as does that of any with flags that it is too old for.
    frozen = bool(re.search(r"\.(el|amzn|oe|an|al)\d|-1[56]\d{4}\.|\.uek\b|\.\d+-lp\d", release))
    frozen |= target >= FLAGS_SINCE_TARGET and version < FLAGS_SINCE
    own = bool(said) or frozen or bool(re.search(r"[-.](fc\d+|arch\d|generic|amd64|default|cachyos|zen)", release))
    return Kernel(release, version, bool(version) and not frozen, own, target)


def parse_version(text: str) -> Version:
    """The numbers at the beginning of a version, without zeros at its end: (6, 8) for 6.8.0-rc1."""
    found = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while len(numbers) > 2 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@cache
def defects() -> tuple[Defect, ...]:
    """All known defects."""
    return tuple(_row(row) for row in tomllib.loads(DEFECTS.read_text())["defect"])


def looked_at() -> str:
    """The last kernel that was searched for defects: those that are not mended are in it."""
    return str(tomllib.loads(DEFECTS.read_text())["looked_at"])


def _row(row: dict[str, str | list[str]]) -> Defect:
    def words(key: str) -> Iterable[str]:
        value = row.get(key, [])
        return [value] if isinstance(value, str) else value

    def versions(key: str) -> tuple[Version, ...]:
        return tuple(parse_version(word) for word in words(key))

    return Defect(
        what=str(row["what"]),
        flags=tuple(words("flags")),
        since=versions("since")[0],
        also=versions("also"),
        fixed=next(iter(versions("fixed")), None),
        stable=versions("stable"),
        commit=str(row.get("commit", "")),
        takes=frozenset(words("takes")),
        effect=str(row["effect"]),
    )


def affected(defect: Defect, version: Version, exact: bool = True) -> bool:
    """Whether an upstream kernel of this version has the defect.

    One that only says where it began may have what is dangerous from later ones.
    """
    if defect.fixed and version >= defect.fixed:
        return False
    began = version >= defect.since or (not exact and defect.effect == "stop")
    began = began or any(version[:2] == it[:2] and version >= it for it in defect.also)
    mended = any(version[:2] == it[:2] and version >= it for it in defect.stable)
    return began and not mended
