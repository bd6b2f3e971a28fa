"""The stored options of a mapping: LUKS2 header, crypttab, kernel command line, initramfs."""

import re
from dataclasses import dataclass

from . import disks, initramfs
from .crypttab import CrypttabLine, line_of, parse_crypttab
from .initramfs import Image
from .mappings import OPTIONS, Mapping
from .opening import Evidence, Opener, Opening, find_opening
from .system import System

CRYPTTAB = "/etc/crypttab"
CRYPTTABS = ("/etc/crypttab.initramfs", CRYPTTAB)  # mkinitcpio copies the first into the initramfs
NOT_FOUND = Opening(Opener("", {}), known=False)
HEADER_OPTIONS = {header: option for option, (_, header, _) in OPTIONS.items()}


@dataclass(frozen=True)
class StoredOptions:
    """Table options by place; None if the place does not exist or could not be read.

    `opening`: how the volume is opened, with its line of crypttab, whose path is `file`. `image`: the initramfs with a
    copy of the line, "" if there is none, and `builder` the program that built it, if known. `unknown`: entries of the
    header that a change would damage, such as an unfinished reencryption. `detached`: the option that says where a
    detached header is, "" if there is none.
    """

    header: frozenset[str] | None = None
    opening: Opening = NOT_FOUND
    file: str = CRYPTTAB
    image: str = ""
    builder: str = ""
    unknown: str = ""
    detached: str = ""

    @property
    def line(self) -> CrypttabLine | None:
        """The line of crypttab, if it is read for the volume."""
        return self.opening.line

    @property
    def crypttab(self) -> frozenset[str] | None:
        """The options in the line of crypttab."""
        return self.opening.opener.options(self.line.options) if self.line else None

    @property
    def in_image(self) -> frozenset[str] | None:
        """The options in the initramfs."""
        copy = self.opening.copy
        return self.opening.opener.options(copy.options) if copy else None

    @property
    def command_line(self) -> frozenset[str] | None:
        """The options on the kernel command line, which are read in place of those of crypttab."""
        arguments = self.opening.arguments
        return None if arguments is None else self.opening.opener.options(arguments)

    @property
    def next_boot(self) -> frozenset[str]:
        """The options that the next boot sets: those of the header and of the place that the opener reads."""
        places = (self.command_line, self.in_image, self.crypttab)
        read = next((options for options in places if options is not None), frozenset[str]())
        return (self.header or frozenset()) | read

    @property
    def anywhere(self) -> frozenset[str]:
        """All stored options: a new initramfs will have those of crypttab."""
        return self.next_boot.union(self.crypttab or (), self.in_image or ())


def parse_dump(text: str) -> tuple[frozenset[str], str, str]:
    """The flags, the entries that a change would damage, and the UUID, from the output of `cryptsetup luksDump`.

    Such entries are requirements, and flags that this program does not know.
    """
    fields = dict(re.findall(r"^(UUID|Flags|Requirements):[ \t]*(.*)$", text, re.MULTILINE))
    words = [] if "(no flags)" in fields.get("Flags", "") else fields.get("Flags", "").split()
    flags = frozenset(HEADER_OPTIONS[word] for word in words if word in HEADER_OPTIONS)
    # A volume that requires opal can be changed.
    unknown = [word for word in fields.get("Requirements", "").split() if not word.startswith("opal")]
    unknown += [word for word in words if word not in HEADER_OPTIONS]
    return flags, " ".join(unknown), fields.get("UUID", "").strip()


def header_device(system: System, mapping: Mapping) -> str:
    """The path of the device with the LUKS header, "" if it is not found. dm-integrity may lie in between."""
    slaves = disks.devices_below(system, mapping.node)
    while slaves and system.word(f"/sys/block/{slaves[0]}/dm/uuid").startswith(("CRYPT-SUBDEV", "CRYPT-INTEGRITY")):
        slaves = disks.devices_below(system, slaves[0])
    if len(slaves) != 1:
        return ""
    label = system.word(f"/sys/block/{slaves[0]}/dm/name")
    return f"/dev/mapper/{label}" if label else f"/dev/{slaves[0].replace('!', '/')}"


def stored_options(system: System, mapping: Mapping, image: Image) -> StoredOptions:
    """The stored options of a mapping."""
    texts = {file: system.read(file, wanted="crypttab") or "" for file in CRYPTTABS}
    lines = {file: line_of(parse_crypttab(text), mapping) for file, text in texts.items()}
    file = next((file for file in CRYPTTABS if lines[file]), CRYPTTAB)
    copies = [line for name in initramfs.CRYPTTABS for line in parse_crypttab(image.texts.get(name, ""))]
    command_line = (system.read("/proc/cmdline") or "").replace('"', "")
    release = system.read("/etc/os-release") or ""
    below = disks.devices_below(system, mapping.node)
    seen = Evidence(
        mapping=mapping,
        command_line=command_line,
        image=image,
        line=lines[file],
        copy=line_of(copies, mapping),
        below=tuple(system.word(f"/sys/block/{name}/dm/name") for name in below),
        for_root=any(it[0] in ("/", "/usr", "/sysroot") for it in disks.uses(system, mapping.node, mapping.name)),
        debian=system.exists("/etc/initramfs-tools") or bool(re.search(r"^ID(_LIKE)?=.*debian", release, re.M)),
        nixos=bool(re.search(r"^ID=.*nixos", release, re.M)) or "init=/nix/store" in command_line,
    )
    opening = find_opening(system, seen)
    header, unknown = None, ""
    words = [word for line in (seen.line, seen.copy) if line for word in line.options] + [*(opening.arguments or ())]
    words += re.findall(rf"\bluks\.options=(?:{mapping.uuid}=)?(?:\S*,)?(header=[^\s,]*)", command_line)
    detached = next((word for word in words if word.startswith("header=")), "")
    if mapping.kind == "LUKS2" and not detached:  # with a detached header, one on the disk is out of date
        device = header_device(system, mapping)
        dump = system.ask(("cryptsetup", "luksDump", device), f"header of {mapping.name}") if device else None
        if dump is not None:
            flags, unknown, uuid = parse_dump(dump)
            header = flags if uuid == mapping.uuid else None  # another UUID: an old header
    place = image.place if seen.copy else ""
    return StoredOptions(header, opening, file, place, initramfs.builder(image), unknown, detached)
