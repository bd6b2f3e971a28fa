"""The program that opens a volume at boot, and the options that it reads.

Sources: cryptsetup-generator.c and cryptsetup.c of systemd, modules.d/*crypt of dracut, debian/functions and
debian/initramfs of Debian's cryptsetup, the hook `encrypt` of Arch Linux.
"""

import difflib
import re
from collections.abc import Iterable
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, replace

from .crypttab import CrypttabLine
from .defects import Version, version_numbers
from .initramfs import Image
from .mappings import DISCARD, FLAGS, OPTIONS, Mapping
from .system import System

CRYPTTAB_WORDS = {tab: option for option, (_, _, tab) in OPTIONS.items() if tab}
SYSTEMD_WORDS = {**CRYPTTAB_WORDS, "allow-discards": DISCARD}
HOOK_WORDS = {
    "allow-discards": DISCARD,
    "discard": DISCARD,
    **{OPTIONS[flag][2]: flag for flag in FLAGS},
    **{f"perf-{flag}": flag for flag in FLAGS},
}
# Arguments of programs that are not known here: mkinitfs of Alpine Linux, genkernel of Gentoo.
FOREIGN = re.compile(r"(^|\s)(cryptroot|cryptdm|crypt_root)=")
# Spellings of options that no program reads resemble one of these, without "perf-" and with "-" for "_".
MEANT = {**SYSTEMD_WORDS, "discards": DISCARD, "high-priority": "high_priority"}
ALIKE = 0.85  # similarity of two words, from 0 to 1
CRYPTOPTS = "cryptopts="  # of initramfs-tools
OFF = ("no", "0", "off", "false", "n", "f")


Hook = tuple[str, tuple[str, ...]]  # an argument, and the options in it


@dataclass(frozen=True)
class Opener:
    """A program that opens volumes: `words` are its spellings of table options.

    It reads the options other than discards since `flags_since` of the package `package`, of which `installed` is
    there; () if unknown.
    """

    name: str
    words: Dictionary[str, str]
    package: str = ""
    flags_since: Version = ()
    installed: Version = ()

    @property
    def too_old(self) -> bool:
        """True if the installed version does not know the two flags."""
        return bool(self.installed) and self.installed < self.flags_since

    def option(self, word: str) -> str:
        """The table option that the program reads from a word, "" if none."""
        option = self.words.get(word, "")
        return "" if self.too_old and option != DISCARD else option

    def options(self, words: Iterable[str]) -> frozenset[str]:
        """The table options that the program reads from words."""
        return frozenset(filter(None, map(self.option, words)))

    def spelled(self, option: str) -> str:
        """The spelling of a table option that the program reads, "" if it reads none."""
        return next((word for word in self.words if self.option(word) == option), "")

    def ignored(self, words: Iterable[str], place: str) -> list[str]:
        """A line for each word of a place that means a table option, and that the program does not read."""
        found = []
        for word in words:
            # With "=", a name that is no UUID may stand in front of an option, or a value behind it.
            option = next(filter(None, map(meant, reversed(word.split("=")))), "")
            if option and not self.option(word):
                text = f"{place}: {self.name} ignores {word}"
                if self.too_old and word in self.words:
                    needed = ".".join(map(str, self.flags_since))
                    text += f": {self.package} {'.'.join(map(str, self.installed))} is older than {needed}"
                elif right := self.spelled(option):
                    text += f"; its spelling is {right}"
                found.append(text)
        return found


INITRAMFS_TOOLS = Opener("initramfs-tools", CRYPTTAB_WORDS, "cryptsetup", (2, 4))
SYSTEMD = Opener("systemd", SYSTEMD_WORDS, "systemd", (248,))
IN_INITRAMFS = replace(SYSTEMD, name="systemd in the initramfs")
DRACUT = Opener("dracut without systemd", {"allow-discards": DISCARD})
ENCRYPT = Opener("the hook encrypt of mkinitcpio", HOOK_WORDS)


@dataclass(frozen=True)
class Opening:
    """How a volume is opened at boot.

    `line`: its line in crypttab, if the opener reads it, itself or by a `copy` in the initramfs. `arguments`: options
    on the kernel command line that take the place of the line's, None without any; `argument`: what stands in front of
    them. `ignored`: lines about options that the opener does not read. `known`: the opener is known, and where its
    options are.
    """

    opener: Opener
    line: CrypttabLine | None = None
    copy: CrypttabLine | None = None
    arguments: tuple[str, ...] | None = None
    argument: str = ""
    ignored: tuple[str, ...] = ()
    known: bool = True


@dataclass(frozen=True)
class LuksArguments:
    """The (rd.)luks arguments of the kernel command line about a volume, as systemd and dracut read them.

    `listed`: some volumes are named, so that only those are opened; `named`: this one is.
    """

    enabled: bool = True
    crypttab: bool = True
    listed: bool = False
    named: bool = False
    own: tuple[str, ...] | None = None
    general: tuple[str, ...] | None = None
    discards: bool = False


def meant(word: str) -> str:
    """The table option that a word means, however it is spelled; "" if none."""
    plain = re.sub(r"^-*(perf-)?", "", word.lower().replace("_", "-"))
    near = [] if "=" in word else difflib.get_close_matches(plain, MEANT, 1, ALIKE)
    return MEANT[near[0]] if near else ""


def luks_arguments(text: str, uuid: str) -> LuksArguments:
    """The arguments about the volume with this UUID, as the initramfs reads them."""
    given: dict[str, list[str]] = {}
    for word in text.split():
        key, _, value = word.partition("=")
        given.setdefault(key.removeprefix("rd."), []).append(value)
    names = [value.lower() for key in ("luks.uuid", "luks.name") for value in given.get(key, [])]
    uuids = [name.removeprefix("luks-").partition("=")[0] for name in names]
    discards = [value.removeprefix("luks-") for value in given.get("luks.allow-discards", [])]
    options: dict[str, tuple[str, ...]] = {}  # by UUID, "" for all volumes
    for value in filter(None, given.get("luks.options", [])):
        if it := re.fullmatch(r"(?:([0-9a-fA-F-]{36})=)?(.+)", value):
            options[(it[1] or "").lower()] = tuple(it[2].split(","))
    return LuksArguments(
        enabled=given.get("luks", [""])[-1] not in OFF,
        crypttab=given.get("luks.crypttab", [""])[-1] not in OFF,
        listed=bool(names),
        named=uuid in uuids,
        own=options.get(uuid) if uuid else None,
        general=options.get(""),
        discards=any(value in ("", "1", "yes", uuid) for value in discards),
    )


def cryptdevice(text: str, mapping: Mapping) -> Hook | None:
    """The argument cryptdevice= that names a volume, and its options; None without such an argument."""
    for word in reversed(text.split()):
        if word.startswith("cryptdevice="):
            device, name, options, *_ = f"{word.partition('=')[2]}::".split(":")
            if name == mapping.name or (mapping.uuid and mapping.uuid in device.lower()):
                return f"cryptdevice={device}:{name}:", tuple(filter(None, options.split(",")))
    return None


@dataclass(frozen=True)
class Evidence:
    """The facts that tell who opens a volume.

    `line` and `copy`: its line in crypttab, and in that of the initramfs. `below`: the names of the
    mappings below it. `for_root`: the root file system is on it. `debian`: the distribution is Debian or made from it.
    """

    mapping: Mapping
    command_line: str
    image: Image
    line: CrypttabLine | None
    copy: CrypttabLine | None
    below: tuple[str, ...]
    for_root: bool
    debian: bool
    nixos: bool

    @property
    def early(self) -> bool:
        """True if the initramfs must open the volume."""
        options = self.line.options if self.line else ()
        return self.for_root or "initramfs" in options or "x-initrd.attach" in options


def find_opening(system: System, seen: Evidence) -> Opening:
    """How the next boot opens a volume."""
    hook = cryptdevice(seen.command_line, seen.mapping)
    found = _opening(seen, hook)
    unread = hook and hook[1] and found.opener is not ENCRYPT
    ignored = ["the initramfs does not read cryptdevice="] if unread else []
    opener = replace(found.opener, installed=installed(system, found.opener.package))
    ignored += found.ignored
    if found.arguments is not None:
        ignored += opener.ignored(found.arguments, "kernel command line")
    elif line := found.copy or found.line:
        ignored += opener.ignored(line.options, "crypttab")
    return replace(found, opener=opener, ignored=tuple(ignored))


def installed(system: System, package: str) -> Version:
    """The installed version of cryptsetup or systemd, () if unknown."""
    program = {"cryptsetup": "cryptsetup", "systemd": "systemctl"}.get(package)
    output = system.ask((program, "--version"), "") if program else None
    found = re.match(r"(?:cryptsetup|systemd) (\d\S*)", output or "")
    return version_numbers(found[1]) if found else ()


def _opening(seen: Evidence, hook: Hook | None) -> Opening:
    """Find the opener: the initramfs shows it; without one, the kernel command line and the distribution do."""
    image = seen.image
    if any(name.startswith("ceph-") for name in (seen.mapping.name, *seen.below)):
        return Opening(Opener("Ceph", {}), known=False)
    if image.has("booster"):
        return _unknown(seen, ())
    if image.has(INITRAMFS_TOOLS.name) or (not image.place and (seen.debian or CRYPTOPTS in seen.command_line)):
        return _by_initramfs_tools(seen)
    if hook is not None and (image.has("encrypt") or not image.place):
        unread = _unread_line(seen, "mkinitcpio's hook encrypt does not read /etc/crypttab", ENCRYPT.options(hook[1]))
        return Opening(ENCRYPT, arguments=hook[1], argument=hook[0], ignored=unread)
    if seen.for_root and not image.place and FOREIGN.search(seen.command_line):
        text = "the kernel command line has arguments of an initramfs that does not read /etc/crypttab"
        return _unknown(seen, _unread_line(seen, text))
    return _by_luks_arguments(seen)


def _unread_line(seen: Evidence, text: str, options: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The text, if crypttab has table options that are not among `options`."""
    lost = SYSTEMD.options(seen.line.options) - options if seen.line else ()
    return (f"{text}; without effect there: {', '.join(sorted(lost))}",) if lost else ()


def _by_luks_arguments(seen: Evidence) -> Opening:
    image, uuid = seen.image, seen.mapping.uuid
    early = luks_arguments(seen.command_line, uuid)
    named = bool(early.named or early.own)
    by_scripts = image.has("cryptroot-ask") and not image.has("systemd")
    known = by_scripts or image.has("systemd") or image.has("dracut")
    by_copy = bool(seen.copy) and (by_scripts or not early.listed)
    in_initramfs = named or by_copy or (seen.early and known)
    if not in_initramfs or not early.enabled or image.has("encrypt"):
        return _running(seen)
    return _by_dracut(seen, early) if by_scripts else _by_systemd(seen, early)


def _by_initramfs_tools(seen: Evidence) -> Opening:
    """How Debian's scripts open the volume."""
    if CRYPTOPTS in seen.command_line:
        text = "takes the place of crypttab in the initramfs, and this program does not read it"
        return _unknown(seen, (f"kernel command line: {CRYPTOPTS} {text}",))
    if seen.copy or (seen.line and not seen.image.place):
        return Opening(INITRAMFS_TOOLS, seen.line, seen.copy)
    return _running(seen)


def _by_dracut(seen: Evidence, early: LuksArguments) -> Opening:
    """dracut's own script, which asks for the passphrase if systemd is not in the initramfs."""
    copy = seen.copy if early.crypttab else None
    unread = tuple(DRACUT.ignored(early.own or early.general or (), "kernel command line"))
    arguments = (*(copy.options if copy else ()), "allow-discards") if early.discards else None
    return Opening(DRACUT, seen.line if copy else None, copy, arguments, ignored=unread)


def _by_systemd(seen: Evidence, early: LuksArguments) -> Opening:
    """systemd in the initramfs. Options with the volume's UUID come first, then crypttab, then options for all."""
    uuid, line = seen.mapping.uuid, seen.copy if seen.image.place else seen.line
    unread: tuple[str, ...] = ()
    if line and not early.crypttab:
        unread, line = (f"rd.luks.crypttab=no: systemd does not read crypttab for {seen.mapping.name}",), None
    elif line and early.listed and uuid not in (line.uuid, line.name.removeprefix("luks-")):
        line = None  # systemd opens the volume by its UUID, without the line
    elif not line:
        text = "the initramfs has no crypttab for this volume, so that /etc/crypttab is not read for it"
        unread = _unread_line(seen, text)
    own = early.own or line or early.general is None or not early.named
    arguments = early.own if own else early.general
    if not line and early.named:
        arguments = arguments or ()
    if early.discards and not (seen.image.place and (early.named or line)):  # dracut's word
        arguments = (*(arguments or (line.options if line else ())), "discard")
    if not (line or early.named or arguments is not None):
        if early.general and SYSTEMD.options(early.general):
            text = "rd.luks.options= without a UUID is only read for the volumes of rd.luks.uuid= and rd.luks.name="
            unread = (*unread, text)
        return _unknown(seen, unread)
    copy, argument = seen.copy if line else None, f"rd.luks.options={uuid}=" if own else "rd.luks.options="
    return Opening(IN_INITRAMFS, seen.line if line else None, copy, arguments, argument, unread)


def _running(seen: Evidence) -> Opening:
    """The running system opens the volume, or an unknown program."""
    if not seen.line or (seen.for_root and seen.image.place):
        return _unknown(seen, ())
    if re.search(r"(^|\s)luks(\.\w+)?=", seen.command_line):
        text = 'luks= and luks.*= without "rd." can replace crypttab; this program does not read them here'
        return _unknown(seen, (f"kernel command line: {text}",))
    scripts = any(option.startswith("keyscript=") for option in seen.line.options)
    return Opening(replace(INITRAMFS_TOOLS, name="cryptdisks") if scripts else SYSTEMD, seen.line)


def _unknown(seen: Evidence, unread: tuple[str, ...]) -> Opening:
    found = (name for name in ("booster", "ZFSBootMenu") if seen.image.has(name))
    return Opening(Opener("NixOS" if seen.nixos else next(found, ""), {}), ignored=unread, known=False)
