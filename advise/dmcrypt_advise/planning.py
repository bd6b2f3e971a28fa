"""Plan a change of options: the calls of cryptsetup, and the steps that the user has to do by hand."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import join

from .crypttab import CrypttabLine
from .defects import Version
from .initramfs import DRACUT, INITRAMFS_TOOLS, MKINITCPIO
from .looking import MappingFacts
from .mappings import FLAGS, OPTIONS, cryptsetup_options
from .opening import SYSTEMD, Opener, meant

FLAGS_IN_CRYPTSETUP: Version = (2, 3, 4)  # the first version with options for the two flags
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
    """The calls of cryptsetup that lead from `old` to `new`; none if the mapping cannot be refreshed.

    A refresh removes every option that it is not given, except those of the header. With --persistent it stores
    exactly the options that it is given.
    """
    if not can_refresh(found) or (old.active, old.header) == (new.active, new.header):
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
    """True if cryptsetup can change the open mapping: it is LUKS, its table is known, and cryptsetup is new enough."""
    return found.mapping.kind in REFRESHABLE and bool(found.mapping.segments) and not is_too_old(found)


def is_too_old(found: MappingFacts) -> bool:
    """True if the installed cryptsetup does not know the flags."""
    return bool(found.cryptsetup) and found.cryptsetup < FLAGS_IN_CRYPTSETUP


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
        needed, there = (".".join(map(str, version)) for version in (FLAGS_IN_CRYPTSETUP, found.cryptsetup))
        return [f"install cryptsetup {needed} or later and run this program again: {there} does not know the flags"]
    if stored.line and new.crypttab is not None and new.crypttab != old.crypttab:
        steps.append(f"replace the line in {stored.file} by:\n{crypttab_text(stored.line, new.crypttab, opener)}")
    if stored.command_line is not None:
        for options, verb, where in (
            (stored.command_line & flags - wanted, "remove", "from"),
            (wanted - header - stored.command_line, "add", "to"),
        ):
            if spelled := ",".join(words(options, opener)):
                steps.append(f"{verb} {spelled} {where} the volume's options on the kernel command line")
    outdated = stored.in_image is not None and (stored.in_image | header) & flags != wanted
    if (outdated or new.crypttab != old.crypttab) and (command := rebuild_command(found)):
        steps.append(command)
    return steps


def commands(found: MappingFacts, old: OptionState, new: OptionState, flags: Options) -> tuple[str, ...]:
    """The calls and the steps by hand."""
    return (*map(join, refresh_calls(found, old, new)), *manual_steps(found, old, new, flags))


def rebuild_command(found: MappingFacts) -> str:
    """The command that builds the initramfs again which opens the mapping; "" if none is known."""
    image = found.stored.image
    if not image:
        return ""
    if image.endswith(".efi"):
        if found.stored.builder == MKINITCPIO:
            return "mkinitcpio -P"
        return f"build {image} again with the tool that built it: mkinitcpio -P, dracut --force --uefi, kernel-install"
    if found.stored.builder == INITRAMFS_TOOLS:
        return "update-initramfs -u"
    if "initramfs-linux" in image:
        return f"dracut --force {image}" if found.stored.builder == DRACUT else "mkinitcpio -P"
    return f"dracut --force {image}" if "initrd.img-" in image else "dracut --force"  # Debian's file name


def words(options: Options, opener: Opener) -> list[str]:
    """Table options as the opener of the volume spells them, in the order of OPTIONS, without those that it ignores."""
    return [word for option in OPTIONS if option in options and (word := opener.spelled(option))]


def option_list(options: Options) -> str:
    """Table options as text, in the order of OPTIONS."""
    return " ".join(option for option in OPTIONS if option in options) or "no flags"


def flag_names(flags: Options) -> str:
    """Flags in short: "both flags", or the name of the one."""
    return "both flags" if flags == frozenset(FLAGS) else option_list(flags)
