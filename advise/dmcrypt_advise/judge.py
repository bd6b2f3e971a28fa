"""Judge the facts: a verdict for each mapping, with reasons. This module reads no file and runs no program.

Commands in its texts are without `sudo`, and name this program dmcrypt-advise: the screen completes them.
"""

import re
from dataclasses import dataclass, field, replace
from shlex import join

from . import ciphers, defects, planning
from .defects import FLAG_NAMES, Defect
from .errors import AdviseError
from .looking import Facts, MappingFacts
from .mappings import FLAGS, READ, WRITE
from .planning import OptionState

# Values of `advice`, for scripts. SET, LEAVE and DONE have other words in the headline.
SET, TAKE_BACK, FIX_FIRST = "set", "take back", "get a kernel fix first"
LEAVE, DONE, CANNOT_TELL = "leave", "nothing to do", "cannot tell"
BIG = 4096  # bytes of the sectors inside today's disks
MOST_ARGUMENTS = 10
SETS_FLAGS_ITSELF = re.compile(r"[-.](cachyos|zen|liquorix|lqx|xanmod|tkg)", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mapping: `advice` is one of the values above, `flags` are the flags to set or to take back.

    `refused`: flags that a defect of this kernel forbids, with the reason; `doubted`: flags that a defect would forbid
    if the distribution has not fixed it; `in_doubt`: one of those is active. `conflicts`: differences between table,
    header, crypttab, command line and initramfs. `notes`: what else is to know about this kernel.
    `sectors`: notes on the sector size; `larger`: advise larger ones.
    `headline`: what to do, in a sentence.
    """

    name: str
    advice: str
    flags: frozenset[str] = frozenset()
    reasons: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    doubted: dict[str, str] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sectors: tuple[str, ...] = ()
    in_doubt: bool = False
    larger: bool = False
    do: tuple[str, ...] = ()
    headline: str = ""

    @property
    def status(self) -> int:
        """The exit status: 0 nothing to do, 1 there is advice, 2 cannot tell."""
        if self.advice == CANNOT_TELL or (self.in_doubt and self.advice in (SET, LEAVE, DONE)):
            return 2
        return 0 if self.advice in (LEAVE, DONE) and not (self.conflicts or self.larger) else 1


def judge(facts: Facts) -> tuple[Verdict, ...]:
    """A verdict for each mapping."""
    verdicts = [_judge(found, facts) for found in facts.mappings]
    return tuple(
        replace(verdict, headline=_headline(found, verdict, forced_flags(found, facts)))
        for found, verdict in zip(facts.mappings, verdicts, strict=True)
    )


def find_mapping(facts: Facts, name: str) -> tuple[MappingFacts, Verdict]:
    """The facts and the verdict about the mapping with a name."""
    for found, verdict in zip(facts.mappings, judge(facts), strict=True):
        if verdict.name == name:
            return found, verdict
    names = ", ".join(found.mapping.name for found in facts.mappings)
    raise AdviseError(f"no open dm-crypt mapping is called {name}" + (f"; open mappings: {names}" if names else ""))


def unsafe_flags(found: MappingFacts, facts: Facts) -> dict[str, str]:
    """Flags that a defect of this kernel may forbid, with the reason. The table must be known."""
    return {flag: text for defect, flag, text in _defects(found, facts) if defect.effect == "stop" and flag}


def target_state(found: MappingFacts, verdict: Verdict) -> OptionState:
    """The state that the verdict advises."""
    flags = {"remove": verdict.flags} if verdict.advice == TAKE_BACK else {"add": verdict.flags}
    return planning.changed_state(found, **flags)


def cannot_judge(found: MappingFacts, facts: Facts) -> tuple[str, str] | None:
    """The advice and the reason if the flags cannot be judged."""
    if not found.mapping.segments:
        return CANNOT_TELL, "its table could not be read"
    if not facts.kernel.has_flags:
        return LEAVE, "this kernel does not have the flags; Linux 5.9 and later do"
    return None


def hindrance(found: MappingFacts) -> tuple[str, str] | None:
    """The advice and the reason if nothing can be changed. An unsafe flag that is set already outweighs both."""
    mapping, stored = found.mapping, found.stored
    if stored.unknown:
        text = f"the LUKS2 header has entries that this program does not handle: {stored.unknown}"
        return LEAVE, f"{text}; finish a reencryption that is under way, or change the flags with cryptsetup"
    if mapping.kind == "LUKS2" and stored.header is None:
        if stored.detached:
            text = f"its LUKS2 header is not on the volume ({stored.detached}), and this program does not read it"
            return CANNOT_TELL, text
        return CANNOT_TELL, "its LUKS2 header could not be read; the header may be detached (--header)"
    if not found.disks:
        return CANNOT_TELL, "/sys does not show the disk below it"
    return None


def forced_flags(found: MappingFacts, facts: Facts) -> frozenset[str]:
    """The flags that the kernel sets by itself: one on zoned disks, and both always in kernels with certain names."""
    flags = {WRITE} if any(disk.zoned for disk in found.disks) else set()
    unasked = (found.mapping.active or frozenset()) - found.stored.anywhere >= set(FLAGS)
    if unasked and SETS_FLAGS_ITSELF.search(facts.kernel.release):
        flags.update(FLAGS)
    return frozenset(flags)


def _judge(found: MappingFacts, facts: Facts) -> Verdict:
    name, active = found.mapping.name, found.mapping.active or frozenset()
    present, forced = active | found.stored.anywhere, forced_flags(found, facts)
    if early := cannot_judge(found, facts):
        return Verdict(name, early[0], reasons=early[1:])
    hindered = hindrance(found)
    medium, good = ([], frozenset[str]()) if hindered else _medium(found)
    reasons = [f"the kernel sets {planning.flag_names(forced)} by itself"] if forced else []
    reasons += planning.outdated_programs(found)
    refused: dict[str, str] = {}
    doubted: dict[str, str] = {}
    applying = _defects(found, facts)
    for defect, flag, text in applying:
        if defect.effect == "stop" and flag in good | present:
            later = facts.kernel.version < defects.version_numbers(defect.since)
            unsure = not facts.kernel.exact and (defect.fixed or later)
            unknown = found.driver is None or found.driver.kind == ciphers.UNSURE
            unsure = unsure or (unknown and "async" in defect.takes)
            (doubted if unsure else refused).setdefault(flag, text)
        elif defect.effect == "useless" and flag in good:
            good -= {flag}
            reasons.append(text)
    if found.driver and found.driver.slow and READ in good:
        good -= {READ}
        text = f"{found.driver.name} uses no instructions of the CPU for this cipher"
        reasons.append(f"{READ}: {text}: decryption in a softirq would block the CPU for long")
    if not found.driver:
        cipher = found.mapping.segments[0].cipher
        reasons.append(f"/proc/crypto has no driver for {cipher}: the driver may complete asynchronously")
    reasons += dict.fromkeys([*refused.values(), *doubted.values()])
    in_doubt = bool(doubted.keys() & active)
    if hindered:
        advice, text = FIX_FIRST if refused else hindered[0], hindered[1]
        reasons.append(text)
        return Verdict(name, advice, frozenset(), tuple(reasons), refused, doubted, in_doubt=in_doubt)
    flags, advice = good - refused.keys() - doubted.keys() - forced, SET
    notes = [text for defect, flag, text in applying if defect.effect == "note" and (not flag or flag in flags)]
    if unsafe := frozenset(refused) & present - forced:
        flags, advice = unsafe, TAKE_BACK
    elif not flags:
        advice = FIX_FIRST if (good | forced) & refused.keys() else CANNOT_TELL if good & doubted.keys() else LEAVE
    elif flags <= active & found.stored.next_boot:
        flags, advice = frozenset(), DONE
    if advice in (SET, DONE):
        text = "one thread with several large requests in flight was up to twice as fast without the flags in this"
        text += " project's measurements: if copies of large files matter most here, measure and follow the verdict"
        notes.insert(0, f"{text}: {_measure(found)}")
    sectors, larger = _sectors(found)
    reasons = reasons if advice == FIX_FIRST else [*medium, *reasons]
    verdict = Verdict(
        name, advice, flags, tuple(reasons), refused, doubted, _conflicts(found, forced), tuple(notes), sectors
    )
    return _with_commands(found, replace(verdict, in_doubt=in_doubt, larger=larger))


def _headline(found: MappingFacts, verdict: Verdict, forced: frozenset[str]) -> str:
    active, advice, names = found.mapping.active or frozenset(), verdict.advice, planning.flag_names
    parts = []
    if advice == SET:
        parts.append(_to_set(found, verdict.flags))
    elif advice == TAKE_BACK:
        parts.append(f"Remove {names(verdict.flags)}, until a kernel without the defect runs")
    elif advice == DONE:
        kept = active & frozenset(FLAGS)
        parts.append(f"Keep {names(kept)}, active and stored" if kept else "Leave it as it is")
    elif advice == FIX_FIRST and forced:
        parts.append(f"Use another kernel: this one sets {names(forced)} by itself, and a defect makes that unsafe")
    elif advice == FIX_FIRST:
        parts.append(_refusal(verdict).capitalize())
    elif advice == CANNOT_TELL and verdict.doubted:
        parts.append(f"{names(frozenset(verdict.doubted))}: cannot tell, look for the fix named below".capitalize())
    elif advice == CANNOT_TELL:
        parts.append(f"Cannot tell: {verdict.reasons[-1]}")
    else:
        parts.append(f"Leave it as it is: the kernel sets {names(forced)} by itself" if forced else "Leave it as it is")
    if advice in (SET, DONE, LEAVE):
        parts += [_refusal(verdict)] if verdict.refused else []
        unsure = f"{names(frozenset(verdict.doubted))}: cannot tell, unsafe without the fix named below"
        parts += [unsure] if verdict.doubted else []
    if verdict.conflicts and advice in (LEAVE, DONE):
        parts.append("resolve the conflict below")
    if verdict.larger:
        parts.append(f"use sectors of {BIG} bytes if the layers above support them")
    return "; ".join(parts) + "."


def _refusal(verdict: Verdict) -> str:
    both = len(verdict.refused) > 1
    return "set neither flag on this kernel" if both else f"do not set {next(iter(verdict.refused))} on this kernel"


def _to_set(found: MappingFacts, flags: frozenset[str]) -> str:
    """The advice to set flags, and the place that stores them. Flags that are active already are only stored."""
    stored, names = found.stored, planning.flag_names
    missing = flags - (found.mapping.active or frozenset())
    new = planning.changed_state(found, add=flags)
    opener, place = stored.opening.opener, "in the LUKS2 header" if new.header is not None else ""
    if not place and all(map(opener.spelled, flags)):
        by_line = f"in {stored.file}" if new.crypttab is not None else ""
        place = "on the kernel command line" if stored.command_line is not None else by_line
    if planning.is_too_old(found):
        return f"Install a newer cryptsetup, then set {names(flags)}"
    if flags <= stored.next_boot:
        return f"Set {names(missing)}; the next boot does so in any case"
    if not place and opener.name and planning.can_refresh(found):
        text = f"{opener.name} cannot set {names(flags)} at the next boot"
        return f"Set {names(missing)}; {text}" if missing else f"Another boot loses them: {text}"
    if not place:
        return f"Set {names(flags)} in the program that opens the volume"
    if not planning.can_refresh(found):
        return f"Store {names(flags)} {place}, and open the volume again"
    them = "it" if len(flags) == 1 else "them" if missing == flags else names(flags)
    return f"Set {names(missing)} and store {them} {place}" if missing else f"Store {names(flags)} {place}"


def _medium(found: MappingFacts) -> tuple[list[str], frozenset[str]]:
    """The reasons that the disks give, and the flags that help on them."""
    disks, reasons = found.disks, []
    for disk in disks:
        if disk.rotational and disk.unreliable:
            text = f"{disk.name} is {disk.unreliable} and says that it rotates, as flash often does there"
            reasons.append(f"{text}: if you know that it is flash, measure: {_measure(found)}")
        elif disk.rotational:
            text = f"{disk.name} rotates: users report that the flags slow large reads on such disks"
            reasons.append(f"{text} (not measured by this project): do not set them")
    if reasons:
        return reasons, frozenset()
    verb = "do" if len(disks) > 1 else "does"
    names = ", ".join(disk.name for disk in disks)
    text = f"{names} {verb} not rotate: for most loads the worker threads cost more time there than they save"
    return [text], frozenset(FLAGS)


def _measure(found: MappingFacts) -> str:
    return f"dmcrypt-advise --measure {found.mapping.name}"


def _traits(found: MappingFacts, facts: Facts) -> frozenset[str]:
    """The conditions of defects.toml that are true for a mapping."""
    segments, disks = found.mapping.segments, found.disks
    generators = {ciphers.iv_generator(segment.cipher) for segment in segments}
    most = max(len({*segment.arguments, *FLAGS}) for segment in segments)
    traits = {
        "async": found.driver is None or found.driver.kind in (ciphers.ASYNC, ciphers.UNSURE),
        "sleeps": bool(found.driver and found.driver.sleeps(facts.kernel.version)),
        "eboiv": bool(generators & {"eboiv", "elephant"}),
        "elephant": "elephant" in generators,
        "integrity": any(segment.integrity for segment in segments),
        "interrupts": any(disk.in_interrupts for disk in disks),
        "polled": any(disk.polled for disk in disks),
        "audit": facts.audit,
        "arguments": most >= MOST_ARGUMENTS,
    }
    return frozenset(name for name, is_true in traits.items() if is_true)


def _defects(found: MappingFacts, facts: Facts) -> list[tuple[Defect, str, str]]:
    """The defects of this kernel that affect a mapping, one row for each flag ("": no flag), with the text for it."""
    traits = _traits(found, facts)
    return [
        (it, FLAG_NAMES.get(flag, ""), f"{it.title}; {_fix(it, facts)}")
        for it in _kernel_defects(facts)
        if traits.issuperset(it.takes)
        for flag in it.flags or ("",)
    ]


def _kernel_defects(facts: Facts) -> list[Defect]:
    version, exact, module = facts.kernel.version, facts.kernel.exact, facts.kernel.module
    return [
        it
        for it in defects.KNOWN_DEFECTS
        if it.effect != "document" and defects.is_affected(it, version, exact)
        if not (module and defects.is_patched(it, version))
    ]


def kernel_defects(facts: Facts) -> list[str]:
    """A line for each known defect of this kernel, for a machine without an open mapping."""
    lines = []
    for it in _kernel_defects(facts):
        patched = f"patched for {', '.join(it.series)}" if it.series else it.remedy or "no fix"
        fix = f"fixed in {it.fixed_in}"
        lines.append(f"{it.title} ({it.affected}); {fix if it.fixed else patched}")
    return lines


def _fix(defect: Defect, facts: Facts) -> str:
    """The versions or the patch with the fix, and the text to look for in a distribution's changelog."""
    series = ", ".join(defect.series)
    if defect.remedy:
        return defect.remedy
    if not defect.fixed and facts.kernel.module:
        return f"this project fixes it for Linux {series} only" if series else "this project has no fix"
    if not defect.fixed:
        text = f"no Linux up to {defects.NEWEST_CHECKED} has a fix"
        if not series:
            return f"{text}, and this project has none"
        if (own := ".".join(map(str, facts.kernel.version[:2]))) not in defect.series:
            return f'{text}; this project has one for Linux {series}: the patch "{defect.patch}"'
        return f'{text}; this project has one for {own}: the patch "{defect.patch}", also in the package dmcrypt-dkms'
    text = f"fixed in {defect.fixed_in}"
    if facts.kernel.distribution and (title := (defect.commits or ("",))[0].partition(" ")[2]):
        text += f'; the kernel of a distribution may have it too: look for "{title}" in its changelog'
    return text


def _conflicts(found: MappingFacts, forced: frozenset[str]) -> tuple[str, ...]:
    stored, active = found.stored, found.mapping.active or frozenset()
    names = planning.option_list
    texts = []
    if lost := active - stored.next_boot - forced:
        text = "stored nowhere for the next boot"
        if not stored.opening.known:
            text = "not found in header, crypttab or kernel command line; the flags may be lost at the next boot"
            text += f", unless {stored.opening.opener.name} sets them" if stored.opening.opener.name else ""
        texts.append(f"active now, but {text}: {names(lost)}")
    if coming := stored.next_boot - active:
        texts.append(f"stored, but not active now: {names(coming)}")
    texts += stored.opening.ignored
    tab = stored.crypttab or frozenset()
    if stored.in_image is not None and stored.in_image != tab:
        text = f"the initramfs has {names(stored.in_image)}, {stored.file} has {names(tab)}"
        texts.append(f"{text}: {planning.rebuild_command(found)}")
    if stored.command_line is not None and stored.line and not tab <= stored.next_boot:
        text = f"the kernel command line ({names(stored.command_line)}) has precedence over {stored.file}"
        texts.append(f"{text} ({names(tab)})")
    return tuple(texts)


def _sectors(found: MappingFacts) -> tuple[tuple[str, ...], bool]:
    """Notes on the sector size, and if larger sectors are advised."""
    segment, name = found.mapping.segments[0], found.mapping.name
    small = [disk.name for disk in found.disks if disk.physical < BIG]
    if segment.sector_size >= BIG or small or segment.integrity:
        return (), False
    text = f"the volume has sectors of {segment.sector_size} bytes, the disk has {BIG}"
    text += ": larger sectors need fewer calls of the cipher"
    if found.mapping.kind != "LUKS2":
        return (text, "only LUKS2 can change the sector size of a volume; others must be created again"), False
    if any(it.length % 8 or it.offset % 8 for it in found.mapping.segments):
        return (text, f"its start or size is no multiple of {BIG} bytes: a change would have to move the data"), False
    if found.holds_lvm:
        return (text, "but it holds LVM, which fails on larger sectors than those that it was created on"), False
    return (
        text,
        f"the layers above must support it: file systems need blocks of {BIG} (XFS: also sectors; ZFS: an ashift of 12"
        " or more); partition tables and disks of virtual machines that were created on sectors of 512 fail",
        "make a backup, then, while the volume is open:\n"
        f"cryptsetup reencrypt --sector-size {BIG} --active-name {name}",
    ), True


def _with_commands(found: MappingFacts, verdict: Verdict) -> Verdict:
    if verdict.advice not in (SET, TAKE_BACK):
        return verdict
    old, new = planning.current_state(found), target_state(found, verdict)
    calls, steps = planning.refresh_calls(found, old, new), planning.manual_steps(found, old, new, verdict.flags)
    reasons = list(verdict.reasons)
    if calls and any(segment.integrity for segment in found.mapping.segments):
        reasons.append("the refresh removes --integrity-no-journal: add it to the command if you use it")
    if new.header is None and old.crypttab is None and not steps:
        reasons.append(
            "no header and no line of crypttab stores options of the mapping: find the program that opens it"
        )
    if found.mapping.kind not in planning.REFRESHABLE:
        reasons.append(f"{found.mapping.kind or 'it'} cannot be refreshed: it changes when it is opened again")
    return replace(verdict, do=(*map(join, calls), *steps), reasons=tuple(reasons))
