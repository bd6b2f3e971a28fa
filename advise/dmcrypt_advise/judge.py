"""From facts to a verdict for each mapping, with its reasons. No file and no program is looked at here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from shlex import join

from . import ciphers, kernel, planning
from .kernel import Defect
from .looking import Facts, Found
from .mappings import FLAGS, READ, WRITE
from .planning import State

SET, TAKE_BACK, FIX_FIRST = "set", "take back", "get a kernel fix first"
LEAVE, DONE, CANNOT_TELL = "leave", "nothing to do", "cannot tell"
TABLE_WORD = {"read": READ, "write": WRITE}
BIG = 4096  # bytes of the sectors that today's disks have inside
MOST_ARGUMENTS = 10


@dataclass(frozen=True)
class Verdict:
    """What to do with a mapping. `advice` is one of the words above, `flags` what is to be set or taken back.

    `refused`: flags that a defect of this kernel forbids, with the reason; `doubted`: flags that one would forbid, had
    the distribution not mended it. `conflicts`: where table, header, crypttab, command line and initramfs disagree.
    `in_doubt`: one of them is in force. `sectors`: what there is to say of their size, nothing where it is right;
    `larger`: they can be changed, and nothing is known to be on top that would not bear it.
    """

    name: str
    advice: str
    flags: frozenset[str] = frozenset()
    reasons: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    doubted: dict[str, str] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()
    sectors: tuple[str, ...] = ()
    in_doubt: bool = False
    larger: bool = False
    do: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        flags = planning.both(self.flags)
        parts = [f"{self.advice} {flags}" if self.flags else self.advice]
        if self.advice == TAKE_BACK:
            parts = [f"{FIX_FIRST}, or take back {flags}"]
        for others, what in ((self.refused, FIX_FIRST), (self.doubted, CANNOT_TELL)):
            parts += (
                [f"{planning.said(frozenset(others))}: {what}"] if self.advice in (SET, DONE, LEAVE) and others else []
            )
        parts += ["settle what disagrees"] if self.conflicts and self.advice in (LEAVE, DONE) else []
        parts += ["sectors of 4096"] if self.larger else []
        return "; ".join(part for part in parts if not (part in (LEAVE, DONE) and len(parts) > 1))

    @property
    def status(self) -> int:
        """For scripts: 0 nothing to do, 1 something is advised, 2 cannot tell."""
        if self.advice == CANNOT_TELL or (self.in_doubt and self.advice in (SET, LEAVE, DONE)):
            return 2
        return 0 if self.advice in (LEAVE, DONE) and not (self.conflicts or self.larger) else 1


def judge(facts: Facts) -> tuple[Verdict, ...]:
    """A verdict for each mapping."""
    return tuple(_judge(found, facts) for found in facts.found)


def unsafe(found: Found, facts: Facts) -> dict[str, str]:
    """Flags that a defect of this kernel forbids, or would, had it not been mended, with the reason; wherever it lies.

    The table must have been seen.
    """
    defects = _defects(found, facts)
    return {word: text for defect, word, text in defects if defect.effect == "stop" and word}


def target(found: Found, verdict: Verdict) -> State:
    """The state that the verdict advises."""
    if verdict.advice == TAKE_BACK:
        return planning.wanted(found, frozenset(), verdict.flags)
    return planning.wanted(found, verdict.flags, frozenset())


def _judge(found: Found, facts: Facts) -> Verdict:
    name, in_force = found.mapping.name, found.mapping.in_force or frozenset()
    there, forced = in_force | found.stored.anywhere, _forced(found, facts)
    if early := _cannot_judge(found, facts):
        return Verdict(name, early[0], reasons=(early[1],))
    hindered = _hindered(found)
    reasons, good = ([], frozenset[str]()) if hindered else _medium(found)
    reasons += [f"the kernel sets {planning.both(forced)} by itself"] if forced else []
    refused: dict[str, str] = {}
    doubted: dict[str, str] = {}
    defects = _defects(found, facts)
    for defect, word, text in defects:
        if defect.effect == "stop" and word in good | there:
            backported = not facts.kernel.exact and (defect.fixed or facts.kernel.version < defect.since)
            unsure = backported or (found.driver is None and "async" in defect.takes)
            (doubted if unsure else refused).setdefault(word, text)
        elif defect.effect == "useless" and word in good:
            good -= {word}
            reasons.append(text)
    if found.driver and found.driver.plain and READ in good:
        good -= {READ}
        reasons.append(f"{found.driver.name} uses no instructions for its cipher: a softirq would decrypt for long")
    if not found.driver:
        reasons.append(
            f"no driver for {found.mapping.segments[0].cipher} in /proc/crypto: it may be an asynchronous one"
        )
    reasons += dict.fromkeys([*refused.values(), *doubted.values()])
    in_doubt = bool(doubted.keys() & in_force)
    if hindered:
        advice, text = FIX_FIRST if refused else hindered[0], hindered[1]
        return Verdict(name, advice, frozenset(), (*reasons, text), refused, doubted, in_doubt=in_doubt)
    flags, advice = good - refused.keys() - doubted.keys() - forced, SET
    notes = [text for defect, word, text in defects if defect.effect == "note" and (not word or word in flags)]
    if surplus := frozenset(refused) & there - forced:
        flags, advice = surplus, TAKE_BACK
    elif not flags:
        advice = FIX_FIRST if (good | forced) & refused.keys() else CANNOT_TELL if good & doubted.keys() else LEAVE
    elif flags <= in_force & found.stored.next_boot:
        flags, advice = frozenset(), DONE
    if any(segment.integrity for segment in found.mapping.segments):
        notes.append("a refresh resets --integrity-no-journal too: give it again if you use it")
    conflicts, (sectors, larger) = _conflicts(found, forced), _sectors(found)
    verdict = Verdict(
        name, advice, flags, (*reasons, *notes), refused, doubted, conflicts, sectors, in_doubt=in_doubt, larger=larger
    )
    return _with_commands(found, verdict)


def _cannot_judge(found: Found, facts: Facts) -> tuple[str, str] | None:
    """The advice where the flags are out of the question, and why."""
    if not found.mapping.segments:
        return CANNOT_TELL, "its table could not be seen: run this as root"
    if not facts.kernel.has_flags:
        return LEAVE, "this kernel does not know the flags: 5.9 and later do"
    return None


def _hindered(found: Found) -> tuple[str, str] | None:
    """The advice where nothing is to be changed, unless a flag that is there already is not safe, and why."""
    mapping, stored = found.mapping, found.stored
    if stored.hinders:
        return LEAVE, f"the header says {stored.hinders}: to be ended, or set by hand, first"
    if mapping.kind == "LUKS2" and stored.header is None:
        return CANNOT_TELL, "its LUKS2 header could not be read: is it elsewhere (--header)?"
    if not found.stack.disks:
        return CANNOT_TELL, "the disk under it was not found in /sys"
    return None


def _forced(found: Found, facts: Facts) -> frozenset[str]:
    """The flags that the kernel sets, whatever it is told: on zoned disks, and in CachyOS's and zen's always both."""
    words = {WRITE} if any(disk.zoned for disk in found.stack.disks) else set()
    unasked = (found.mapping.in_force or frozenset()) - found.stored.anywhere
    if re.search(r"[-.](cachyos|zen)", facts.kernel.release) and unasked >= set(FLAGS):
        words.update(FLAGS)
    return frozenset(words)


def _medium(found: Found) -> tuple[list[str], frozenset[str]]:
    """What the disks say, and the flags that they would profit from."""
    disks = found.stack.disks
    reasons = []
    turning = [disk for disk in disks if disk.rotational]
    for disk in turning:
        if disk.virtual:
            text = f"{disk.name} is virtual and says that it rotates, as many do whatever is behind them"
            reasons.append(f"{text}: if you know that it is flash, measure")
        else:
            text = f"{disk.name} rotates: the flags are said to slow large reads there"
            reasons.append(f"{text} (asserted by others, not measured by us)")
    if turning:
        return reasons, frozenset()
    verb = "do" if len(disks) > 1 else "does"
    names = ", ".join(disk.name for disk in disks)
    return [*reasons, f"{names} {verb} not rotate: handing over to threads costs more there than it gains"], frozenset(
        FLAGS
    )


def _traits(found: Found, facts: Facts) -> frozenset[str]:
    """What defects take (see defects.toml), as far as it is there."""
    segments, disks = found.mapping.segments, found.stack.disks
    most = max(len({*segment.arguments, *FLAGS}) for segment in segments)
    traits = {
        "async": found.driver is None or found.driver.kind == ciphers.ASYNC,
        "eboiv": any(ciphers.iv(segment.cipher) in ("eboiv", "elephant") for segment in segments),
        "integrity": any(segment.integrity for segment in segments),
        "interrupts": any(disk.in_interrupts for disk in disks),
        "zoned": any(disk.zoned for disk in disks),
        "polled": any(disk.polled for disk in disks),
        "audit": facts.audit,
        "arguments": most >= MOST_ARGUMENTS,
    }
    return frozenset(name for name, is_so in traits.items() if is_so)


def _defects(found: Found, facts: Facts) -> list[tuple[Defect, str, str]]:
    """The defects of this kernel that apply to a mapping, for each flag that it takes ("": none), with a text."""
    traits = _traits(found, facts)
    version, exact = facts.kernel.version, facts.kernel.exact
    applying = [it for it in kernel.defects() if it.takes <= traits and kernel.affected(it, version, exact)]
    texts = {
        it: f"{' and '.join(TABLE_WORD[flag] for flag in it.flags) or 'with or without flags'}: {it.what}"
        for it in applying
    }
    return [
        (it, TABLE_WORD.get(flag, ""), texts[it] + _mended(it, facts)) for it in applying for flag in it.flags or ("",)
    ]


def _mended(defect: Defect, facts: Facts) -> str:
    """Which kernel has the fix, and whether this one may have it without saying so."""
    if not defect.fixed:
        return "" if defect.effect == "note" else f"; not mended up to {kernel.looked_at()}"
    versions = ", ".join(".".join(map(str, it)) for it in (*defect.stable, defect.fixed))
    text = f"; mended in {versions}"
    if facts.kernel.distribution:
        text += f"; this kernel may have it too: look for {defect.commit} in its changelog"
    return text


def _conflicts(found: Found, forced: frozenset[str]) -> tuple[str, ...]:
    stored, in_force = found.stored, found.mapping.in_force or frozenset()
    said = planning.said
    texts = []
    if lost := in_force - stored.next_boot - forced:
        texts.append(f"in force, but stored nowhere that the next opening looks at: {said(lost)}")
    if coming := stored.next_boot - in_force:
        texts.append(f"stored, but not in force now: {said(coming)}")
    tab = stored.line.words if stored.line else frozenset()
    if stored.in_image is not None and stored.in_image != tab:
        text = f"the initramfs has {said(stored.in_image)}, {stored.file} {said(tab)}"
        texts.append(f"{text}: {planning.rebuild(found)}")
    if stored.command_line is not None and stored.line and stored.command_line != tab:
        text = f"the kernel's command line ({said(stored.command_line)}) comes before {stored.file}"
        texts.append(f"{text} ({said(tab)})")
    return tuple(texts)


def _sectors(found: Found) -> tuple[tuple[str, ...], bool]:
    """What there is to say of their size, and whether to advise another one."""
    segment, name = found.mapping.segments[0], found.mapping.name
    small = [disk.name for disk in found.stack.disks if disk.physical < BIG]
    if segment.sector_size >= BIG or small or segment.integrity:
        return (), False
    text = f"sectors of {segment.sector_size} on a disk of {BIG}: a page is eight requests to the cipher, not one"
    if found.mapping.kind != "LUKS2":
        return (text, f"only LUKS2 can be changed; {found.mapping.kind or 'this'} would have to be made anew"), False
    if any(it.length % 8 or it.offset % 8 for it in found.mapping.segments):
        return (text, "begin or size is no multiple of 4096 bytes: it cannot be changed without moving the data"), False
    return (
        text,
        f"while it is open, with a backup: cryptsetup reencrypt --sector-size {BIG} --active-name {name}",
        "what is on top must bear it: a file system with blocks of 4096 (XFS: sectors, too); no LVM, partition table or"
        " disk of a virtual machine that was made for 512",
    ), not found.holds_lvm


def _with_commands(found: Found, verdict: Verdict) -> Verdict:
    """The verdict with what to type."""
    if verdict.advice not in (SET, TAKE_BACK):
        return verdict
    old, new = planning.now(found), target(found, verdict)
    do = [join(call) for call in planning.refreshes(found, old, new)]
    undo = [join(call) for call in planning.refreshes(found, new, old)]
    left = planning.by_hand(found, old, new, verdict.flags)
    reasons = list(verdict.reasons)
    if new.tab != old.tab:
        do.append(f"{found.stored.file}, options of {verdict.name}: {_options(new)}")
        undo.append(f"{found.stored.file}, options of {verdict.name}: {_options(old)}")
    elif new.header is None and old.tab is None and not left:
        verb = "take it from" if verdict.advice == TAKE_BACK else "give it to"
        reasons.append(f"no header and no line in /etc/crypttab has this: {verb} whatever opens the mapping")
    if not planning.can_refresh(found):
        reasons.append(f"{found.mapping.kind or 'it'} cannot be refreshed: takes effect when it is opened again")
    do += left
    undo += planning.by_hand(found, new, old, verdict.flags - old.table)
    return replace(verdict, do=tuple(do), undo=tuple(undo), reasons=tuple(reasons))


def _options(state: State) -> str:
    return ",".join(planning.tab_options(state.tab or frozenset())) or "none of these"
