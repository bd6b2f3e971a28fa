"""dm-crypt mappings: what their tables say. The key's field is never kept: only its size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .system import System

READ, WRITE = "no_read_workqueue", "no_write_workqueue"
FLAGS = (READ, WRITE)
DISCARD = "allow_discards"
# Words of the table that cryptsetup can set: option of open and refresh, word in the LUKS2 header, word in crypttab.
OPTIONS = {
    DISCARD: ("--allow-discards", "allow-discards", "discard"),
    "same_cpu_crypt": ("--perf-same_cpu_crypt", "same-cpu-crypt", "same-cpu-crypt"),
    "submit_from_crypt_cpus": (
        "--perf-submit_from_crypt_cpus",
        "submit-from-crypt-cpus",
        "submit-from-crypt-cpus",
    ),
    READ: ("--perf-no_read_workqueue", "no-read-workqueue", "no-read-workqueue"),
    WRITE: ("--perf-no_write_workqueue", "no-write-workqueue", "no-write-workqueue"),
    "high_priority": ("--perf-high_priority", "high-priority", ""),
}
TYPES = ("LUKS1", "LUKS2", "PLAIN", "BITLK", "TCRYPT", "LOOPAES", "FVAULT2")


@dataclass(frozen=True)
class Segment:
    """One line of a crypt table. Sizes of keys in bits, of sectors in bytes; `start`, `length`, `offset` in 512 bytes.

    `device` is "major:minor"; `keyring` the kind of key in the kernel's keyring, "" where dm-crypt was given the key.
    """

    start: int
    length: int
    cipher: str
    key_bits: int
    keyring: str
    device: str
    offset: int
    arguments: tuple[str, ...]

    @property
    def sector_size(self) -> int:
        """What is encrypted at once."""
        return next((int(it.partition(":")[2]) for it in self.arguments if it.startswith("sector_size:")), 512)

    @property
    def integrity(self) -> bool:
        """Whether each sector has a tag."""
        return any(it.startswith("integrity:") for it in self.arguments)


@dataclass(frozen=True)
class Mapping:
    """A mapping with its kernel name (dm-0), type (LUKS2, ...; "" unknown) and the UUID in its header, if any.

    `segments` is empty where the table could not be seen.
    """

    name: str
    node: str
    kind: str
    uuid: str
    segments: tuple[Segment, ...] = ()

    @property
    def in_force(self) -> frozenset[str] | None:
        """Those words of OPTIONS that the table has, in every segment; None where it was not seen."""
        if not self.segments:
            return None
        return frozenset(word for word in OPTIONS if all(word in it.arguments for it in self.segments))


def parse_table(text: str) -> dict[str, tuple[Segment, ...]]:
    """The crypt segments of `dmsetup table`, by the mapping's name. Lines of other kinds are left out."""
    found: dict[str, list[Segment]] = {}
    for line in text.splitlines():
        name, _, table = line.partition(": ")
        words = table.split()
        if len(words) < 8 or words[2] != "crypt":
            continue
        keyring = re.fullmatch(r":(\d+):([a-z]+):.*", words[4])
        bits = int(keyring[1]) * 8 if keyring else 0 if words[4] == "-" else len(words[4]) * 4
        segment = Segment(
            start=int(words[0]),
            length=int(words[1]),
            cipher=words[3],
            key_bits=bits,
            keyring=keyring[2] if keyring else "",
            device=words[6],
            offset=int(words[7]),
            arguments=tuple(words[9:]),
        )
        found.setdefault(name, []).append(segment)
    return {name: tuple(some) for name, some in found.items()}


@dataclass(frozen=True)
class _Node:
    name: str
    uuid: str = field(default="")


def look(system: System) -> list[Mapping]:
    """The machine's dm-crypt mappings: from /sys, which everybody may read, and from their tables."""
    nodes = {
        system.word(f"/sys/block/{node}/dm/name"): _Node(node, system.word(f"/sys/block/{node}/dm/uuid"))
        for node in system.names("/sys/block")
        if node.startswith("dm-")
    }
    if not nodes:
        return []
    tables = parse_table(system.ask(("dmsetup", "table", "--target", "crypt"), "tables") or "")
    found = []
    for name, node in nodes.items():
        kind, uuid = parse_uuid(node.uuid)
        if kind or name in tables:
            found.append(Mapping(name, node.name, kind, uuid, tables.get(name, ())))
    return found


def parse_uuid(uuid: str) -> tuple[str, str]:
    """Type and header's UUID from what cryptsetup calls a mapping: CRYPT-LUKS2-<32 digits>-name."""
    words = uuid.split("-")
    if len(words) < 3 or words[0] != "CRYPT" or words[1] not in TYPES:
        return "", ""
    digits = words[2] if re.fullmatch(r"[0-9a-f]{32}", words[2]) else ""
    dashed = "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))) if digits else ""
    return words[1], dashed


def as_options(words: Sequence[str] | frozenset[str]) -> list[str]:
    """cryptsetup's options for words of the table, in a fixed order."""
    return [OPTIONS[word][0] for word in OPTIONS if word in words]
