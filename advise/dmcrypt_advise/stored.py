"""What the next opening of a mapping will set: LUKS2 header, crypttab, kernel command line, initramfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from . import disks, initramfs
from .mappings import DISCARD, OPTIONS, Mapping
from .system import System

CRYPTTAB = "/etc/crypttab"
CRYPTTABS = ("/etc/crypttab.initramfs", CRYPTTAB)  # the first is mkinitcpio's, whose initramfs has it as /etc/crypttab
HEADER_WORDS = {header: word for word, (_, header, _) in OPTIONS.items()}
TAB_WORDS = {tab: word for word, (_, _, tab) in OPTIONS.items() if tab} | {"allow-discards": DISCARD}  # systemd has two
FIELD = re.compile(r"\S+", re.ASCII)  # of a line of crypttab: other spaces belong to it
UNCHANGED = "surrogateescape"  # bytes that are no UTF-8 come out as they went in


@dataclass(frozen=True)
class Line:
    """A line of a crypttab: fields as they are written. `number` counts from 0."""

    number: int
    name: str
    source: str
    key: str
    options: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """The words of the table among its options."""
        return known(self.options)

    @property
    def uuid(self) -> str:
        """The UUID that the source names, "" where it names none."""
        said = re.fullmatch(r"(UUID=|/dev/disk/by-uuid/)(.*)", re.sub("[\"']", "", self.source))
        return said[2].lower() if said else ""


@dataclass(frozen=True)
class Stored:
    """Words of the table by where they are stored; None where there is no such place, or it was not seen.

    `line`: of crypttab, which is `file`. `image`: the initramfs that opens the mapping, "" where none that was seen
    does; `by_initramfs_tools`: who made that. `hinders`: what the header has that is not to be touched, such as an
    unfinished reencryption.
    """

    header: frozenset[str] | None = None
    line: Line | None = None
    file: str = CRYPTTAB
    command_line: frozenset[str] | None = None
    in_image: frozenset[str] | None = None
    image: str = ""
    by_initramfs_tools: bool = False
    hinders: str = ""

    @property
    def next_boot(self) -> frozenset[str]:
        """What the next boot sets: the header's words and those of whoever opens it. An initramfs comes first."""
        tab = self.line.words if self.line else frozenset()
        options = self.in_image if self.in_image is not None else tab
        options = self.command_line if self.command_line is not None else options
        return (self.header or frozenset()) | options

    @property
    def anywhere(self) -> frozenset[str]:
        """All words that are stored: a new initramfs has those of crypttab."""
        return self.next_boot.union(self.line.words if self.line else (), self.in_image or ())


def known(options: Iterable[str]) -> frozenset[str]:
    """The words of the table for options as crypttab has them."""
    return frozenset(TAB_WORDS[option] for option in options if option in TAB_WORDS)


def read_crypttab(system: System, file: str) -> str:
    """The text of a crypttab, every byte of it, "" where there is none or it cannot be read."""
    try:
        return system.path(file).read_bytes().decode(errors=UNCHANGED)
    except FileNotFoundError:
        return ""
    except OSError as error:
        system.miss(f"crypttab: {file}: {error.strerror}")
        return ""


def parse_crypttab(text: str) -> list[Line]:
    """The lines of a crypttab that name a mapping."""
    found = []
    for number, line in enumerate(text.split("\n")):
        fields = FIELD.findall(line)
        if len(fields) < 2 or fields[0].startswith("#"):
            continue
        fields += ["none", ""][len(fields) - 2 :]
        found.append(Line(number, fields[0], fields[1], fields[2], tuple(filter(None, fields[3].split(",")))))
    return found


def parse_dump(text: str) -> tuple[frozenset[str], str, str]:
    """Flags, what stands in the way of changing them, and the UUID, in what `cryptsetup luksDump` prints.

    In the way are requirements, and flags that are not known here, which a change would lose.
    """
    said = dict(re.findall(r"^(UUID|Flags|Requirements):[ \t]*(.*)$", text, re.MULTILINE))
    words = [] if "(no flags)" in said.get("Flags", "") else said.get("Flags", "").split()
    flags = frozenset(HEADER_WORDS[word] for word in words if word in HEADER_WORDS)
    hinders = [*said.get("Requirements", "").split(), *(word for word in words if word not in HEADER_WORDS)]
    return flags, " ".join(hinders), said.get("UUID", "").strip()


def parse_command_line(text: str, mapping: Mapping) -> tuple[frozenset[str] | None, bool]:
    """What the kernel's command line says of a LUKS volume, and whether it names the volume.

    None where it says nothing.
    """
    own: frozenset[str] | None = None
    general: frozenset[str] | None = None
    for word in text.split():
        key, _, value = word.partition("=")
        if key == "cryptdevice":  # mkinitcpio's; its options have two spellings
            device, name, options, *_ = f"{value}::".split(":")
            if name == mapping.name or mapping.uuid in device:
                own = known(option.removeprefix("perf-").replace("_", "-") for option in options.split(","))
        if key not in ("rd.luks.options", "luks.options"):
            continue
        name, equals, options = value.partition("=")
        if equals and re.fullmatch(r"[0-9a-f-]{36}", name):
            if name == mapping.uuid:
                own = known(options.split(","))
        else:
            general = known(value.split(","))
    return (general, False) if own is None else (own, True)


def header_device(system: System, mapping: Mapping) -> str:
    """The device whose begin has a LUKS header, as a path; "" where it is not found. dm-integrity may lie between."""
    slaves = disks.below(system, mapping.node)
    while slaves and system.word(f"/sys/block/{slaves[0]}/dm/uuid").startswith(("CRYPT-SUBDEV", "CRYPT-INTEGRITY")):
        slaves = disks.below(system, slaves[0])
    if len(slaves) != 1:
        return ""
    label = system.word(f"/sys/block/{slaves[0]}/dm/name")
    return f"/dev/mapper/{label}" if label else f"/dev/{slaves[0]}"


def _line_of(lines: Iterable[Line], mapping: Mapping) -> Line | None:
    """The line of a mapping: the one with its name, if not of another volume, or else one with its UUID."""
    fitting = [line for line in lines if not (mapping.uuid and line.uuid) or line.uuid == mapping.uuid]
    named = [line for line in fitting if line.name == mapping.name]
    return next(iter(named + [line for line in fitting if mapping.uuid and line.uuid]), None)


def look(system: System, mapping: Mapping, image: tuple[str, dict[str, str]]) -> Stored:
    """What is stored for a mapping. `image`: what initramfs.look gave."""
    lines = {file: _line_of(parse_crypttab(read_crypttab(system, file)), mapping) for file in CRYPTTABS}
    file = next((file for file in CRYPTTABS if lines[file]), CRYPTTAB)
    place, texts = image
    copies = [line for name in initramfs.CRYPTTABS for line in parse_crypttab(texts.get(name, ""))]
    copy, line = _line_of(copies, mapping), lines[file]
    header, hinders = None, ""
    commands = [system.read("/proc/cmdline") or ""]
    commands += [text for name, text in texts.items() if name.startswith(initramfs.COMMAND_LINES)]
    detached = any(option.startswith("header=") for each in (line, copy) if each for option in each.options)
    detached |= bool(re.search(rf"\bluks\.options=({mapping.uuid}=)?(\S*,)?header=", " ".join(commands)))
    if mapping.kind == "LUKS2" and not detached:  # one on the disk would be an old one
        device = header_device(system, mapping)
        dump = system.ask(("cryptsetup", "luksDump", device), f"header of {mapping.name}") if device else None
        if dump is not None:
            flags, hinders, uuid = parse_dump(dump)
            header = flags if uuid == mapping.uuid else None  # else one that was left there: the real one is elsewhere
    said, named = parse_command_line(" ".join(commands), mapping) if mapping.uuid else (None, False)
    return Stored(
        header=header,
        line=line,
        file=file,
        command_line=said if named or not (line or copy) else None,  # a crypttab comes before what names no volume
        in_image=copy.words if copy else None,
        image=place if copy else "",
        by_initramfs_tools=initramfs.CRYPTTABS[0] in texts,
        hinders=hinders,
    )
