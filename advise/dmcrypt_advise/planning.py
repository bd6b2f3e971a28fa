"""Plan a change of options: the calls of cryptsetup, and the steps that the user has to do by hand."""

import re
from dataclasses import dataclass

from .crypttab import CrypttabLine
from .defects import Version
from .initramfs import DRACUT, INITRAMFS_TOOLS, MKINITCPIO
from .looking import FLAGS_IN_CRYPTSETUP, MappingFacts
from .mappings import FLAGS, OPTIONS, cryptsetup_options
from .opening import SYSTEMD, Opener, meant

REBUILD = {INITRAMFS_TOOLS: "update-initramfs -u", MKINITCPIO: "mkinitcpio -P"}
REFRESHABLE = ("LUKS1", "LUKS2")  # others need all arguments of open again, or have a new key each time
Options = frozenset[str]


@dataclass(frozen=True)
class OptionState:
    """Options that are active, in the LUKS2 header, and in the line of crypttab; None: there is no such place."""

    active: Options
    header: Options | None
    crypttab: Options | None


def current_state(found: MappingFacts) -> OptionState:
    """The options of the mapping now."""
    return OptionState(found.mapping.active or frozenset(), found.stored.header, found.stored.crypttab)


def changed_state(found: MappingFacts, *, add: Options = frozenset(), remove: Options = frozenset()) -> OptionState:
    """The current state with flags added or removed. All other options stay.

    Any refresh activates the options of the header. Crypttab gets flags only if there is no header to store them.
    """
    old = current_state(found)
    header = None if old.header is None else (old.header | add) - remove
    opener = found.stored.opening.opener
    stored = frozenset(option for option in add if header is None and opener.spelled(option))
    crypttab = None if old.crypttab is None else (old.crypttab | stored) - remove
    return OptionState((old.active | (old.header or frozenset()) | add) - remove, header, crypttab)


def refresh_calls(found: MappingFacts, old: OptionState, new: OptionState) -> list[list[str]]:
    """The calls of cryptsetup that lead from `old` to `new`; none if it cannot refresh the mapping, or is too old.

    A refresh removes every option that it is not given, except those of the header. With --persistent it stores
    exactly the options that it is given.
    """
    needs_flags = bool((new.active | (new.header or frozenset())) & frozenset(FLAGS))
    if (
        not can_refresh(found)
        or (needs_flags and is_too_old(found))
        or (old.active, old.header) == (new.active, new.header)
    ):
        return []
    refresh = ["cryptsetup", "refresh", found.mapping.name]
    if found.mapping.kind == "LUKS2" and not found.mapping.segments[0].keyring:
        refresh.append("--disable-keyring")  # keep the key out of the keyring
    if new.header is None:
        return [[*refresh, *cryptsetup_options(new.active)]]
    calls, active = [], old.active
    if new.header != old.header:
        calls.append([*refresh, "--persistent", *cryptsetup_options(new.header)])
        active = new.header
    if new.active | new.header != active:
        calls.append([*refresh, *cryptsetup_options(new.active | new.header)])
    return calls


def can_refresh(found: MappingFacts) -> bool:
    """True if cryptsetup can change the open mapping: it is LUKS, and its table is known."""
    return found.mapping.kind in REFRESHABLE and bool(found.mapping.segments)


def is_too_old(found: MappingFacts) -> bool:
    """True if the installed cryptsetup does not know the flags."""
    return bool(found.cryptsetup) and found.cryptsetup < FLAGS_IN_CRYPTSETUP


def outdated_programs(found: MappingFacts) -> list[str]:
    """The installed programs that do not know the flags, with the first version that does."""
    opener = found.stored.opening.opener
    programs = [("cryptsetup", found.cryptsetup, FLAGS_IN_CRYPTSETUP)] if is_too_old(found) else []
    if found.stored.header is None and opener.too_old:
        name = opener.name if opener.name == opener.package else f"{opener.name} of {opener.package}"
        programs.append((name, opener.installed, opener.flags_since))
    return [
        f"{name} {_dotted(there)} does not know the flags; {_dotted(needed)} and later do"
        for name, there, needed in programs
    ]


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def crypttab_text(line: CrypttabLine, options: Options, opener: Opener = SYSTEMD) -> str:
    """The line for crypttab with exactly these table options, as `opener` spells them; other options stay in order."""
    kept = [it for it in line.options if not meant(it) or opener.option(it) in options]
    kept += words(options - opener.options(line.options), opener)
    return " ".join([line.name, line.source, line.key, *([",".join(kept)] if kept else [])])


def manual_steps(found: MappingFacts, old: OptionState, new: OptionState, flags: Options) -> list[str]:
    """The steps by hand after which the next boot sets those of `flags` that `new` has active, and no others.

    The kernel's command line has precedence over the initramfs, which has precedence over crypttab.
    """
    stored, wanted, header = found.stored, new.active & flags, new.header or frozenset()
    opener, steps = stored.opening.opener, []
    if is_too_old(found) and wanted:
        return [f"install cryptsetup {_dotted(FLAGS_IN_CRYPTSETUP)} or later and run this program again"]
    if stored.line and new.crypttab is not None and new.crypttab != old.crypttab:
        steps.append(f"replace the line in {stored.file} by:\n{crypttab_text(stored.line, new.crypttab, opener)}")
    if stored.opening.arguments is not None and stored.opening.argument:
        before = stored.opening.arguments
        kept = [it for it in before if (opener.option(it) or not meant(it)) and opener.option(it) not in flags - wanted]
        kept += words(wanted - header - opener.options(before), opener)
        if opener.options(kept) != opener.options(before):
            argument = f"{stored.opening.argument}{','.join(kept)}".rstrip(":")
            key = stored.opening.argument.partition("=")[0]
            verb = f"replace the {key}= for this volume by" if before or not key.startswith("rd.") else "add"
            steps.append(f"on the kernel command line, in the boot loader's configuration, {verb}:\n{argument}")
    outdated = stored.in_image is not None and (stored.in_image | header) & flags != wanted
    if (outdated or new.crypttab != old.crypttab) and (command := rebuild_command(found)):
        steps.append(command)
    return steps


def rebuild_command(found: MappingFacts) -> str:
    """The command that builds the initramfs again which opens the mapping; "" if none is known."""
    image, builder = found.stored.image, found.stored.builder
    if not image or builder in REBUILD:
        return REBUILD[builder] if image else ""
    if "/ostree/" in image:
        return "rpm-ostree initramfs-etc --track=/etc/crypttab"
    if entry := re.fullmatch(r".*/([^/]*\d\.\d[^/]*)/initrd(-[0-9a-f]+)?", image):  # one directory for each kernel
        release = entry[1]
        return "sdbootutil mkinitrd" if entry[2] else f"kernel-install add {release} /usr/lib/modules/{release}/vmlinuz"
    arch = "initramfs-linux" in image
    other = f" {image}" if arch or "initrd.img-" in image else ""  # dracut's own file name is another one
    return REBUILD[MKINITCPIO] if arch and builder != DRACUT else f"dracut --force{other}"


def words(options: Options, opener: Opener) -> list[str]:
    """Table options as the opener of the volume spells them, in the order of OPTIONS, without those that it ignores."""
    return [word for option in OPTIONS if option in options and (word := opener.spelled(option))]


def option_list(options: Options) -> str:
    """Table options as text, in the order of OPTIONS."""
    return " ".join(option for option in OPTIONS if option in options) or "no flags"


def flag_names(flags: Options) -> str:
    """Flags in short: "both flags", or the name of the one."""
    return "both flags" if flags == frozenset(FLAGS) else option_list(flags)
