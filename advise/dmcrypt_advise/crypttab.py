"""The lines of crypttab, in /etc and in an initramfs."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .mappings import Mapping

FIELD = re.compile(r"\S+", re.ASCII)  # a field of crypttab: spaces other than those of ASCII belong to it


@dataclass(frozen=True)
class CrypttabLine:
    """The fields of a line of crypttab."""

    name: str
    source: str
    key: str
    options: tuple[str, ...]

    @property
    def uuid(self) -> str:
        """The UUID in the source, "" if it has none."""
        found = re.fullmatch(r"(UUID=|/dev/disk/by-uuid/)(.*)", re.sub("[\"']", "", self.source))
        return found[2].lower() if found else ""


def parse_crypttab(text: str) -> list[CrypttabLine]:
    """The lines of a crypttab that name a mapping."""
    found = []
    for line in text.split("\n"):
        fields = FIELD.findall(line)
        if len(fields) < 2 or fields[0].startswith("#"):
            continue
        fields += ["none", ""][len(fields) - 2 :]
        found.append(CrypttabLine(fields[0], fields[1], fields[2], tuple(filter(None, fields[3].split(",")))))
    return found


def line_of(lines: Iterable[CrypttabLine], mapping: Mapping) -> CrypttabLine | None:
    """The line of a mapping: the one with its name, except if it has another UUID, or else one with its UUID."""
    fitting = [line for line in lines if not (mapping.uuid and line.uuid) or line.uuid == mapping.uuid]
    named = [line for line in fitting if line.name == mapping.name]
    return next(iter(named + [line for line in fitting if mapping.uuid and line.uuid]), None)
