"""The known defects of defects.toml, and the documents made from them.

python3 -m dmcrypt_advise.defects REPOSITORY writes the lists between the markers in docs/defects.md and README.md.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("defects.toml")
FLAG_NAMES = {"read": "no_read_workqueue", "write": "no_write_workqueue"}
BEGIN, END = "<!-- defects -->", "<!-- end -->"
README_GROUPS = 2
SUBJECT = re.compile(r"^Subject: \[PATCH\] (.*(?:\n .*)*)", re.MULTILINE)
Version = tuple[int, ...]


@dataclass(frozen=True)
class Defect:
    """A row of defects.toml, which explains the fields."""

    group: str
    symptom: str
    affected: str
    flags: Sequence[str]
    since: str
    effect: str
    also: Sequence[str] = ()
    fixed: str = ""
    stable: Sequence[str] = ()
    commits: Sequence[str] = ()
    patch: str = ""
    series: Sequence[str] = ()
    remedy: str = ""
    takes: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The flags and the symptom."""
        names = " and ".join(FLAG_NAMES[flag] for flag in self.flags) or "with or without the flags"
        return f"{names}: {self.symptom}"

    @property
    def fixed_in(self) -> str:
        """All versions from which on upstream has the fix, as text."""
        return ", ".join([*self.stable, self.fixed])


def version_numbers(text: str) -> Version:
    """Up to three numbers at the start of a version, without zeros at its end: (6, 8) for 6.8.0-rc1.

    A fourth number counts the builds of somebody other than upstream: 5.10.16.3 of WSL2 is upstream's 5.10.16.
    """
    found = re.match(r"\d+(\.\d+){0,2}", text)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while len(numbers) > 2 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


_DATA: dict[str, Any] = tomllib.loads(DATA.read_text())
KNOWN_DEFECTS = tuple(Defect(**row) for row in _DATA["defect"])
# The patched module by series of kernels: the version of its dm-crypt before the patches.
MODULE_BASES = {version_numbers(series): version_numbers(base) for series, base in _DATA["module"].items()}
NEWEST_CHECKED = str(_DATA["newest_checked"])  # the newest kernel that was searched for defects


def is_affected(defect: Defect, version: Version, exact: bool = True) -> bool:
    """Tell if an upstream kernel of this version has the defect.

    A version that is not exact only names the oldest possible source: later dangerous defects may be in the kernel.
    """
    if defect.fixed and version >= version_numbers(defect.fixed):
        return False
    began = version >= version_numbers(defect.since) or (not exact and defect.effect == "stop")
    return (began or _in_series(version, defect.also)) and not _in_series(version, defect.stable)


def is_patched(defect: Defect, version: Version) -> bool:
    """Tell if this project's dm-crypt, loaded in a kernel of this version, is free of the defect."""
    base = MODULE_BASES.get(version[:2])
    return base is not None and (version[:2] in map(version_numbers, defect.series) or not is_affected(defect, base))


def _in_series(version: Version, starts: Sequence[str]) -> bool:
    """True if the version is one of `starts` or later in its stable series."""
    return any(version[:2] == it[:2] and version >= it for it in map(version_numbers, starts))


def patch_places(repository: Path) -> dict[str, list[str]]:
    """For each patch title of queues/linux-*: queue and number."""
    places: dict[str, list[str]] = {}
    for path in sorted(repository.glob("queues/linux-*/patches/*.patch"), reverse=True):
        subject = SUBJECT.search(path.read_text())
        title = " ".join(subject[1].split()) if subject else ""
        places.setdefault(title, []).append(f"{path.parent.parent.name} {int(path.name[:4])}")
    return places


def document(repository: Path) -> str:
    """The list for docs/defects.md."""
    lines, group, places = list[str](), "", patch_places(repository)
    for defect in KNOWN_DEFECTS:
        if defect.group != group:
            group = defect.group
            lines.append(f"## {group}\n")
        fixes = [f"upstream {commit}" for commit in defect.commits]
        fixes += [f'"{defect.patch}" ({", ".join(places[defect.patch])})'] if defect.patch else []
        symptom, flags, affected, kernels = _cells(defect)
        lines += [f"- **{symptom}**", f"  - Flags: {flags}", f"  - Affected: {affected}", f"  - Kernels: {kernels}"]
        lines.append(f"  - Fix: {'; '.join(fixes) or ('upstream' if defect.remedy else 'none')}\n")
    return "\n".join(lines)


def readme_table(repository: Path) -> str:
    """The short form: a table of the worst defects."""
    places = patch_places(repository)
    lines = ["| symptom | flags | affected | kernels | fix: queue and patch number |", "|---|---|---|---|---|"]
    groups = list(dict.fromkeys(defect.group for defect in KNOWN_DEFECTS))[:README_GROUPS]
    for defect in KNOWN_DEFECTS:
        if defect.group in groups and defect.effect != "document":
            fix = ", ".join(places.get(defect.patch, [])) or ("upstream" if defect.fixed or defect.remedy else "none")
            lines.append(f"| {' | '.join([*_cells(defect), fix])} |")
    return "\n".join(lines)


def generated_files(repository: Path) -> dict[Path, str]:
    """The generated files of the repository with the contents that they should have."""
    found = {}
    for name, part in {"docs/defects.md": document, "README.md": readme_table}.items():
        before, after = (repository / name).read_text().split(f"{BEGIN}\n")
        found[repository / name] = f"{before}{BEGIN}\n\n{part(repository)}\n{END}{after.partition(END)[2]}"
    return found


def _cells(defect: Defect) -> tuple[str, str, str, str]:
    flags = " and ".join(f"`{FLAG_NAMES[flag]}`" for flag in defect.flags) or "any or none"
    kernels = f"{defect.since} and later"
    if defect.also:
        kernels += f", {', '.join(defect.also)} and later in the same stable series"
    unfixed = defect.remedy or f"not fixed up to {NEWEST_CHECKED}"
    kernels += f"; fixed in {defect.fixed_in}" if defect.fixed else f"; {unfixed}"
    return defect.symptom[:1].upper() + defect.symptom[1:], flags, defect.affected, kernels


if __name__ == "__main__":
    for path, content in generated_files(Path(sys.argv[1])).items():
        path.write_text(content)
