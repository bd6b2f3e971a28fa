"""Do what is advised, prove that it is so, and take it back. What is changed is kept first, readable by root alone.

Kept are the flags and /etc/crypttab, never a LUKS header: its key slots are not ours to copy.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Any

from . import judge, looking, planning
from .errors import AdviseError
from .judge import SET, TAKE_BACK, Verdict
from .looking import Found
from .planning import State
from .stored import UNCHANGED, parse_crypttab, read_crypttab
from .system import System, environment

KEPT = "/var/lib/dmcrypt-advise"
STATE, TAB_BEFORE = "state.json", "crypttab.before"
WHOLE = "whole"  # a file that is there once all was changed, and until something is taken back
YES = "yes"


def call_on_terminal(argv: Sequence[str]) -> int:
    """Run a program that may ask for a passphrase: the terminal is its own. Returns its exit status.

    It is waited for whatever is typed: an interrupt is its own first, and ours once it has ended.
    """
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))  # which no program inherits
    try:
        with _told(f"cannot run {argv[0]}"):
            status = subprocess.run(argv, env=environment(), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
    return status


@dataclass(frozen=True)
class Person:
    """Who asks for a change: is told, confirms with a word, and gives cryptsetup a passphrase, or the key file."""

    say: Callable[[str], None]
    confirm: Callable[[str], str]
    key_file: str = ""
    call: Callable[[Sequence[str]], int] = call_on_terminal


@dataclass(frozen=True)
class Change:
    """What is to be done: calls of cryptsetup, and the text of crypttab, which is `file`, before and after."""

    calls: Sequence[Sequence[str]]
    file: str
    before: str
    after: str

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """Line by line, for a person: as it is, as it shall be."""
        before, after = (it.encode(errors=UNCHANGED).decode(errors="replace") for it in (self.before, self.after))
        return zip(before.split("\n"), after.split("\n"), strict=True)

    def check(self, system: System) -> None:
        """Raise AdviseError where crypttab is to be changed, and is no longer what it was."""
        if self.after != self.before != read_crypttab(system, self.file):
            raise AdviseError(f"{system.path(self.file)} was edited meanwhile: it was left as it is")

    def carry_out(self, system: System, person: Person) -> None:
        """Do it: what may fail for want of a passphrase comes first."""
        for argv in self.calls:
            status = person.call([*argv, *(["--key-file", person.key_file] if person.key_file else [])])
            if status != 0:
                raise AdviseError(f"{join(argv)} ended with exit status {status}")
        self.check(system)
        if self.after != self.before:
            _replace(system.path(self.file), self.after.encode(errors=UNCHANGED))


@dataclass(frozen=True)
class Kept:
    """What --undo has to know. `volume`: what tells it from others of the same name; `line`: of crypttab, as it was."""

    before: State
    after: State
    volume: dict[str, Any]
    line: str | None

    def as_json(self) -> str:
        """For the file."""
        return json.dumps(vars(self), indent=2, default=lambda it: vars(it) if isinstance(it, State) else sorted(it))

    @classmethod
    def parse(cls, text: str) -> Kept:
        """From the file. Raises ValueError where that is damaged."""
        try:
            kept = json.loads(text)
            return cls(_state(kept["before"]), _state(kept["after"]), dict(kept["volume"]), kept["line"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is damaged at {error}") from error


def apply(system: System, name: str, person: Person) -> None:
    """Do what is advised for a mapping.

    Raises AdviseError, with the reason, where there is nothing to do, where a defect of this kernel forbids it, and
    where what came out is not what was wanted.
    """
    found, verdict = _one(system, name)
    if verdict.advice not in (SET, TAKE_BACK):
        raise AdviseError("\n    ".join([f"{name}: {verdict.headline}; nothing was changed", *verdict.reasons]))
    old, new = planning.now(found), judge.target(found, verdict)
    text, line = _crypttab(system, found), found.stored.line
    number = line.number if line and new.tab != old.tab else None
    changed = text if number is None else planning.with_words(text, number, new.tab or frozenset())
    change = Change(planning.refreshes(found, old, new), found.stored.file, text, changed)
    left = planning.by_hand(found, old, new, verdict.flags)
    if not change.calls and changed == text:
        why = [f"{name}: there is nothing here that could be changed", *verdict.reasons, *left]
        raise AdviseError("\n    ".join(why))
    place = _kept(system, name)
    if place.exists():
        raise AdviseError(f"{name}: what was set last is still kept in {place}: advise --undo {name} comes first")
    also = new.table - old.table - verdict.flags
    lines = [*verdict.do, *([f"in force then, as the header has it: {planning.said(also)}"] if also else [])]
    _confirm(person, f"{name}: {verdict.headline}", lines)
    change.check(system)
    _keep(place, Kept(old, new, _volume(found), None if number is None else text.split("\n")[number]), change)
    try:
        change.carry_out(system, person)
        seen = _prove(system, name, new)
    except (AdviseError, KeyboardInterrupt) as error:
        if planning.now(_one(system, name)[0]) != old or (
            changed != text and read_crypttab(system, change.file) != text
        ):
            back = f"advise --undo {name} takes back what was changed"
            if isinstance(error, AdviseError):
                raise AdviseError(f"{error}\n  {back}") from error
            person.say(f"interrupted: {back}")
            raise
        _forget(place)
        raise
    with _told(f"{name} was changed, but that cannot be noted in {place}"):
        (place / WHOLE).touch()
    _tell(name, seen, left, person)


def undo(system: System, name: str, person: Person) -> None:
    """Take back what `apply` did, and nothing else. Raises AdviseError where nothing is kept, or not of this volume."""
    found, _ = _one(system, name)
    place = _kept(system, name)
    kept = _read(place, name)
    _refuse(found, kept, place)
    old, line = planning.now(found), found.stored.line
    new = planning.taken_back(old, kept.before, kept.after, whole=(place / WHOLE).exists())
    text = changed = _crypttab(system, found)
    if line and new.tab is not None and new.tab != old.tab:
        changed = planning.line_back(text, line.number, new.tab, kept.line or "", kept.after.tab or frozenset())
    change = Change(planning.refreshes(found, old, new), found.stored.file, text, changed)
    lines = [join(argv) for argv in change.calls]
    lines += [f"{change.file}: {after}" for before, after in change.lines if before != after]
    _confirm(person, f"{name}: back to {_summary(new)}", lines)
    with _told(f"cannot note in {place} what is to be changed; nothing was changed"):
        (place / WHOLE).unlink(missing_ok=True)
    try:
        change.carry_out(system, person)
        seen = _prove(system, name, new)
    except KeyboardInterrupt:
        person.say(f"interrupted: advise --undo {name} goes on with it")
        raise
    _forget(place)
    _tell(name, seen, planning.by_hand(found, old, new, old.table - new.table), person)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Have an error said in words."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise AdviseError(f"{what}: {(isinstance(error, OSError) and error.strerror) or error}") from error


def _one(system: System, name: str) -> tuple[Found, Verdict]:
    facts = looking.look(system)
    for found, verdict in zip(facts.found, judge.judge(facts), strict=True):
        if verdict.name == name:
            return found, verdict
    names = ", ".join(found.mapping.name for found in facts.found)
    raise AdviseError(f"no dm-crypt mapping {name} is open" + (f"; open are: {names}" if names else ""))


def _confirm(person: Person, what: str, lines: Sequence[str]) -> None:
    person.say("\n    ".join([what, *lines]))
    if person.confirm(f"type {YES} to do this: ") != YES:
        raise AdviseError("not confirmed, so nothing was changed")


def _tell(name: str, state: State, left: Sequence[str], person: Person) -> None:
    person.say(f"{name}: now {_summary(state)}")
    for line in left:
        person.say(f"left to do by hand, for the next boot: {line}")


def _crypttab(system: System, found: Found) -> str:
    """The text of crypttab, with the line that was found where it was found."""
    text, line = read_crypttab(system, found.stored.file), found.stored.line
    if line and line not in parse_crypttab(text):
        raise AdviseError(f"{system.path(found.stored.file)} was edited just now: nothing was changed")
    return text


def _volume(found: Found) -> dict[str, Any]:
    """What tells a volume from others of the same name: its UUID, as devices may have other numbers after a boot."""
    mapping = found.mapping
    devices = [] if mapping.uuid else sorted({segment.device for segment in mapping.segments})
    return {"type": mapping.kind, "uuid": mapping.uuid, "devices": devices}


def _refuse(found: Found, kept: Kept, place: Path) -> None:
    """Raise AdviseError where what is kept is not to be done to what was found."""
    name, stored = found.mapping.name, found.stored
    if (volume := _volume(found)) != kept.volume:
        text = f"{name} is {volume}, but kept was {kept.volume}: if that one is gone, remove {place}"
        raise AdviseError(text)
    if stored.hinders:
        raise AdviseError(f"{name}: the header says {stored.hinders}: to be ended, or set by hand, first")
    if (stored.header is None) != (kept.before.header is None):
        raise AdviseError(f"{name}: its LUKS2 header could not be read, or has moved; nothing was changed")


def _kept(system: System, name: str) -> Path:
    return system.path(KEPT) / name


def _part(path: Path) -> Path:
    """What a file or directory is called until it is whole."""
    return path.with_name(f".{path.name}.dmcrypt-advise")


def _keep(place: Path, kept: Kept, change: Change) -> None:
    """Keep what is to be changed: the whole of it, on the disk, or nothing."""
    part = _part(place)
    with _told(f"cannot keep in {place} what is to be changed; nothing was changed"):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.parent.chmod(0o700)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        _write(part / STATE, kept.as_json().encode())
        if kept.line is not None:
            _write(part / TAB_BEFORE, change.before.encode(errors=UNCHANGED))  # for a person: --undo needs it not
        _sync(part)
        part.rename(place)
        _sync(place.parent)


def _read(place: Path, name: str) -> Kept:
    by_hand = f"take back by hand what is to be taken back ({TAB_BEFORE} there is the old crypttab), then remove it"
    with _told(f"{name}: what is kept in {place} cannot be used: {by_hand}"):
        if place.exists():
            return Kept.parse((place / STATE).read_text())
    raise AdviseError(f"{name}: nothing is kept in {place}")


def _forget(place: Path) -> None:
    with _told(f"cannot remove {place}: do so by hand"):
        shutil.rmtree(_part(place), ignore_errors=True)
        place.rename(_part(place))
        shutil.rmtree(_part(place))


def _state(kept: dict[str, list[str] | None]) -> State:
    words = {key: None if some is None else frozenset(some) for key, some in kept.items()}
    return State(words["table"] or frozenset(), words["header"], words["tab"])


def _replace(path: Path, content: bytes) -> None:
    """Give a file another content, whole or not at all; owner and mode stay."""
    path = path.resolve()
    part = _part(path)
    try:
        with _told(f"cannot write {path}"):
            part.unlink(missing_ok=True)
            _write(part, content, path.stat())
            part.replace(path)
            _sync(path.parent)
    except AdviseError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _write(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Make a file, on the disk when this returns, with owner and mode of another."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as fresh:
        fresh.write(content)
        if like:
            os.fchown(fresh.fileno(), like.st_uid, like.st_gid)
            os.fchmod(fresh.fileno(), like.st_mode & 0o7777)
        fresh.flush()
        os.fsync(fresh.fileno())


def _sync(directory: Path) -> None:
    """Have the names in a directory on the disk."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _prove(system: System, name: str, wanted: State) -> State:
    """Look again: table, header and crypttab have to say what was wanted. Returns what they say."""
    found, _ = _one(system, name)
    seen = planning.now(found)
    table = wanted.table if planning.can_refresh(found) else seen.table
    if seen != State(table, wanted.header, wanted.tab):
        raise AdviseError(f"{name}: wanted {_summary(wanted)}; found {_summary(seen)}")
    return seen


def _summary(state: State) -> str:
    parts = [f"in force {planning.said(state.table)}"]
    parts += [] if state.header is None else [f"in the header {planning.said(state.header)}"]
    parts += [] if state.tab is None else [f"in crypttab {planning.said(state.tab)}"]
    return "; ".join(parts)
