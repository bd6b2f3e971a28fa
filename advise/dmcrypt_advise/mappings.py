"""The open dm-crypt mappings and their tables. Of a key only the size is kept."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from .system import System

READ, WRITE = "no_read_workqueue", "no_write_workqueue"
FLAGS = (READ, WRITE)
DISCARD = "allow_discards"
# Table options that cryptsetup can set: its command-line option, the name in the LUKS2 header, the name in crypttab.
OPTIONS = {
    DISCARD: ("--allow-discards", "allow-discards", "discard"),
    "same_cpu_crypt": ("--perf-same_cpu_crypt", "same-cpu-crypt", "same-cpu-crypt"),
    "submit_from_crypt_cpus": ("--perf-submit_from_crypt_cpus", "submit-from-crypt-cpus", "submit-from-crypt-cpus"),
    READ: ("--perf-no_read_workqueue", "no-read-workqueue", "no-read-workqueue"),
    WRITE: ("--perf-no_write_workqueue", "no-write-workqueue", "no-write-workqueue"),
    "high_priority": ("--perf-high_priority", "high_priority", ""),
}
TYPES = ("LUKS1", "LUKS2", "PLAIN", "BITLK", "TCRYPT", "LOOPAES", "FVAULT2")


@dataclass(frozen=True)
class Segment:
    """One line of a crypt table. `length` and `offset` count 512 bytes, `key_bits` bits.

    `device` is "major:minor". `keyring` is the type of the key in the kernel's keyring, "" if the table has the key.
    """

    length: int
    cipher: str
    key_bits: int
    keyring: str
    device: str
    offset: int
    arguments: tuple[str, ...]

    @property
    def sector_size(self) -> int:
        """The size of an encrypted sector in bytes."""
        return next((int(it.partition(":")[2]) for it in self.arguments if it.startswith("sector_size:")), 512)

    @property
    def integrity(self) -> bool:
        """True if each sector has an integrity tag."""
        return any(it.startswith("integrity:") for it in self.arguments)


@dataclass(frozen=True)
class Mapping:
    """A mapping: `node` is its kernel name (dm-0), `kind` LUKS2, LUKS1, ... or "", `uuid` that of its header or "".

    `segments` is empty if the table could not be read.
    """

    name: str
    node: str
    kind: str
    uuid: str
    segments: tuple[Segment, ...] = ()

    @property
    def active(self) -> frozenset[str] | None:
        """The options of OPTIONS that every segment of the table has; None if the table is unknown."""
        if not self.segments:
            return None
        return frozenset(option for option in OPTIONS if all(option in it.arguments for it in self.segments))


def parse_table(text: str) -> dict[str, tuple[Segment, ...]]:
    """The crypt segments of `dmsetup table` by name of the mapping."""
    found: dict[str, list[Segment]] = {}
    for line in text.splitlines():
        name, _, table = line.partition(": ")
        words = table.split()
        if len(words) < 8 or words[2] != "crypt":
            continue
        keyring = re.fullmatch(r":(\d+):([a-z]+):.*", words[4])
        bits = int(keyring[1]) * 8 if keyring else 0 if words[4] == "-" else len(words[4]) * 4
        keyring_type = keyring[2] if keyring else ""
        segment = Segment(int(words[1]), words[3], bits, keyring_type, words[6], int(words[7]), tuple(words[9:]))
        found.setdefault(name, []).append(segment)
    return {name: tuple(some) for name, some in found.items()}


def open_mappings(system: System) -> list[Mapping]:
    """The open dm-crypt mappings: from /sys, which every user may read, and from their tables."""
    if not (nodes := [node for node in system.names("/sys/block") if node.startswith("dm-")]):
        return []
    output = system.ask(("dmsetup", "table", "--target", "crypt"), "tables")
    tables = parse_table(output or "")
    found = []
    for node in nodes:
        name = system.word(f"/sys/block/{node}/dm/name")
        kind, uuid = parse_uuid(system.word(f"/sys/block/{node}/dm/uuid"))
        if name in tables or (kind and output is None):  # others have no dm-crypt, such as LUKS2 with OPAL alone
            found.append(Mapping(name, node, kind, uuid, tables.get(name, ())))
    return found


def parse_uuid(uuid: str) -> tuple[str, str]:
    """Type and UUID of the header from the dm UUID that cryptsetup gives a mapping: CRYPT-LUKS2-<32 digits>-name."""
    words = uuid.replace("-OPAL-", "-", 1).split("-")
    if len(words) < 3 or words[0] != "CRYPT" or words[1] not in TYPES:
        return "", ""
    return words[1], str(UUID(words[2])) if re.fullmatch(r"[0-9a-f]{32}", words[2]) else ""


def cryptsetup_options(options: Collection[str]) -> list[str]:
    """cryptsetup's command-line options for table options, in a fixed order."""
    return [OPTIONS[option][0] for option in OPTIONS if option in options]
