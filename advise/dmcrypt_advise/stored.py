"""The stored options of a mapping: LUKS2 header, crypttab, kernel command line, initramfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from . import disks, initramfs
from .mappings import DISCARD, FLAGS, OPTIONS, Mapping
from .system import System

CRYPTTAB = "/etc/crypttab"
CRYPTTABS = ("/etc/crypttab.initramfs", CRYPTTAB)  # mkinitcpio copies the first into the initramfs
HEADER_OPTIONS = {header: option for option, (_, header, _) in OPTIONS.items()}
CRYPTTAB_OPTIONS = {tab: option for option, (_, _, tab) in OPTIONS.items() if tab}
CRYPTTAB_OPTIONS["allow-discards"] = DISCARD  # systemd has two names for it
CRYPTDEVICE_OPTIONS = {tab: tab for tab in CRYPTTAB_OPTIONS if tab != "discard"} | {  # of mkinitcpio's encrypt hook
    f"perf-{option}": OPTIONS[option][2] for option in FLAGS
}
FIELD = re.compile(r"\S+", re.ASCII)  # a field of crypttab: spaces other than those of ASCII belong to it


@dataclass(frozen=True)
class CrypttabLine:
    """The fields of a line of crypttab."""

    name: str
    source: str
    key: str
    options: tuple[str, ...]

    @property
    def table_options(self) -> frozenset[str]:
        """The table options among the options."""
        return table_options(self.options)

    @property
    def uuid(self) -> str:
        """The UUID in the source, "" if it has none."""
        found = re.fullmatch(r"(UUID=|/dev/disk/by-uuid/)(.*)", re.sub("[\"']", "", self.source))
        return found[2].lower() if found else ""


@dataclass(frozen=True)
class StoredOptions:
    """Table options by place; None if the place does not exist or could not be read.

    `line`: the line of crypttab, whose path is `file`. `image`: the initramfs that opens the mapping, "" if none was
    found, and `builder` the program that built it, if known. `unknown`: entries of the header that a change would
    damage, such as an unfinished reencryption. `opener_known`: crypttab, its copy in the initramfs or the command line
    of the kernel names the mapping.
    """

    header: frozenset[str] | None = None
    line: CrypttabLine | None = None
    file: str = CRYPTTAB
    command_line: frozenset[str] | None = None
    in_image: frozenset[str] | None = None
    image: str = ""
    builder: str = ""
    unknown: str = ""
    opener_known: bool = False

    @property
    def next_boot(self) -> frozenset[str]:
        """The options that the next boot sets: those of the header and of the place with the highest precedence."""
        tab = self.line.table_options if self.line else frozenset()
        options = self.in_image if self.in_image is not None else tab
        options = self.command_line if self.command_line is not None else options
        return (self.header or frozenset()) | options

    @property
    def anywhere(self) -> frozenset[str]:
        """All stored options: a new initramfs will have those of crypttab."""
        return self.next_boot.union(self.line.table_options if self.line else (), self.in_image or ())


def table_options(options: Iterable[str]) -> frozenset[str]:
    """The table options for options as crypttab spells them."""
    return frozenset(CRYPTTAB_OPTIONS[option] for option in options if option in CRYPTTAB_OPTIONS)


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


def parse_dump(text: str) -> tuple[frozenset[str], str, str]:
    """The flags, the entries that a change would damage, and the UUID, from the output of `cryptsetup luksDump`.

    Such entries are requirements, and flags that this program does not know.
    """
    fields = dict(re.findall(r"^(UUID|Flags|Requirements):[ \t]*(.*)$", text, re.MULTILINE))
    words = [] if "(no flags)" in fields.get("Flags", "") else fields.get("Flags", "").split()
    flags = frozenset(HEADER_OPTIONS[word] for word in words if word in HEADER_OPTIONS)
    unknown = [word for word in fields.get("Requirements", "").split() if word != "opal"]  # opal allows changes
    unknown += [word for word in words if word not in HEADER_OPTIONS]
    return flags, " ".join(unknown), fields.get("UUID", "").strip()


def parse_command_line(text: str, mapping: Mapping) -> tuple[frozenset[str] | None, bool]:
    """The options for a LUKS volume on the kernel command line, None without any; and if they name the volume."""
    own: frozenset[str] | None = None
    general: frozenset[str] | None = None
    discards = False
    for word in text.split():
        key, _, value = word.partition("=")
        if key == "cryptdevice":
            device, name, options, *_ = f"{value}::".split(":")
            if name == mapping.name or mapping.uuid in device:
                own = table_options(CRYPTDEVICE_OPTIONS.get(option, "") for option in options.split(","))
        if key == "rd.luks.allow-discards" and value.removeprefix("luks-") in ("", mapping.uuid):  # of dracut
            discards = True
        if key not in ("rd.luks.options", "luks.options"):
            continue
        name, equals, options = value.partition("=")
        if equals and re.fullmatch(r"[0-9a-f-]{36}", name):
            if name == mapping.uuid:
                own = table_options(options.split(","))
        else:
            general = table_options(value.split(","))
    if discards:
        own = (own or general or frozenset()) | {DISCARD}
    return (general, False) if own is None else (own, True)


def header_device(system: System, mapping: Mapping) -> str:
    """The path of the device with the LUKS header, "" if it is not found. dm-integrity may lie in between."""
    slaves = disks.devices_below(system, mapping.node)
    while slaves and system.word(f"/sys/block/{slaves[0]}/dm/uuid").startswith(("CRYPT-SUBDEV", "CRYPT-INTEGRITY")):
        slaves = disks.devices_below(system, slaves[0])
    if len(slaves) != 1:
        return ""
    label = system.word(f"/sys/block/{slaves[0]}/dm/name")
    return f"/dev/mapper/{label}" if label else f"/dev/{slaves[0]}"


def _line_of(lines: Iterable[CrypttabLine], mapping: Mapping) -> CrypttabLine | None:
    """The line of a mapping: the one with its name, except if it has another UUID, or else one with its UUID."""
    fitting = [line for line in lines if not (mapping.uuid and line.uuid) or line.uuid == mapping.uuid]
    named = [line for line in fitting if line.name == mapping.name]
    return next(iter(named + [line for line in fitting if mapping.uuid and line.uuid]), None)


def stored_options(system: System, mapping: Mapping, image: tuple[str, dict[str, str]]) -> StoredOptions:
    """The stored options of a mapping. `image`: the result of initramfs.find_initramfs."""
    texts = {file: system.read(file, wanted="crypttab") or "" for file in CRYPTTABS}
    lines = {file: _line_of(parse_crypttab(text), mapping) for file, text in texts.items()}
    file = next((file for file in CRYPTTABS if lines[file]), CRYPTTAB)
    place, members = image
    copies = [line for name in initramfs.CRYPTTABS for line in parse_crypttab(members.get(name, ""))]
    copy, line = _line_of(copies, mapping), lines[file]
    header, unknown = None, ""
    commands = " ".join(
        [
            system.read("/proc/cmdline") or "",
            *(text for name, text in members.items() if name.startswith(initramfs.COMMAND_LINES)),
        ]
    )
    detached = any(option.startswith("header=") for each in (line, copy) if each for option in each.options)
    detached |= bool(re.search(rf"\bluks\.options=({mapping.uuid}=)?(\S*,)?header=", commands))
    if mapping.kind == "LUKS2" and not detached:  # with a detached header, one on the disk is out of date
        device = header_device(system, mapping)
        dump = system.ask(("cryptsetup", "luksDump", device), f"header of {mapping.name}") if device else None
        if dump is not None:
            flags, unknown, uuid = parse_dump(dump)
            header = flags if uuid == mapping.uuid else None  # another UUID: an old header
    builder = initramfs.builder(members)
    by_tools = bool(copy) and builder == initramfs.INITRAMFS_TOOLS  # which reads no options from the command line
    options, named, opens = None, False, None
    if mapping.uuid and not by_tools:
        options, named = parse_command_line(commands, mapping)
        opens = re.search(rf"\brd\.luks\.uuid=(luks-)?{mapping.uuid}", commands)
        if opens and re.search(r"\brd\.luks\.crypttab=(no|0)\b", commands):
            line = copy = None
    return StoredOptions(
        header=header,
        line=line,
        file=file,
        command_line=options if named or not (line or copy) else None,  # crypttab has precedence over general options
        in_image=copy.table_options if copy else None,
        image=place if copy else "",
        builder=builder,
        unknown=unknown,
        opener_known=bool(line or copy or named or opens),
    )
