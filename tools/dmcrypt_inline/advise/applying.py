"""Do what is advised, prove that it is so, and take it back. What is changed is kept first, readable by root alone.

Kept are the flags and /etc/crypttab, never a LUKS header: its key slots are not ours to copy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from ..common.errors import UserError
from . import judge, looking, planning
from .judge import SET, TAKE_BACK, Verdict
from .looking import Found
from .planning import State
from .stored import CRYPTTAB
from .system import System

KEPT = "/var/lib/dmcrypt-inline"
YES = "yes"


def call_on_terminal(argv: Sequence[str]) -> int:
    """Run a program that may ask for a passphrase: the terminal is its own. Returns its exit status."""
    return subprocess.run(argv, check=False).returncode


@dataclass(frozen=True)
class Person:
    """Who asks for a change: is told, confirms with a word, and gives cryptsetup a passphrase, or the key file."""

    say: Callable[[str], None]
    confirm: Callable[[str], str]
    key_file: str = ""
    call: Callable[[Sequence[str]], int] = call_on_terminal


def apply(system: System, name: str, person: Person) -> None:
    """Do what is advised for a mapping.

    Raises UserError, with the reason, where there is nothing to do, where a defect of this kernel forbids it, and
    where what came out is not what was wanted.
    """
    found, verdict = _one(system, name)
    if verdict.advice not in (SET, TAKE_BACK):
        raise UserError("\n    ".join([f"{name}: {verdict.headline}; nothing was changed", *verdict.reasons]))
    old, new = planning.now(found), judge.target(found, verdict)
    if new.tab == old.tab and not planning.refreshes(found, old, new):
        raise UserError("\n    ".join([f"{name}: there is nothing here that could be changed", *verdict.reasons]))
    place = _kept(system, name)
    if place.exists():
        raise UserError(f"{name}: what was set last is still kept in {place}: advise --undo {name} comes first")
    _confirm(person, f"{name}: {verdict.headline}", verdict.do)
    _keep(system, name, old, new)
    try:
        _refresh(planning.refreshes(found, old, new), person)
        _change_crypttab(system, found, old, new)
        _prove(system, name, new)
    except UserError as error:
        if planning.now(_one(system, name)[0]) != old:
            raise UserError(f"{error}\n  advise --undo {name} takes back what was changed") from error
        shutil.rmtree(place)
        raise
    _tell(found, new, old, person)


def undo(system: System, name: str, person: Person) -> None:
    """Take back what `apply` did. Raises UserError where nothing is kept, or crypttab was edited meanwhile."""
    place = _kept(system, name)
    try:
        kept = json.loads((place / "state.json").read_text())
    except OSError as error:
        raise UserError(f"{name}: nothing is kept in {place}: {error.strerror}") from error
    old, new = _state(kept["before"]), _state(kept["after"])
    before, after = place / "crypttab.before", place / "crypttab.after"
    crypttab = system.path(CRYPTTAB)
    if before.exists() and crypttab.read_bytes() not in (each.read_bytes() for each in (before, after)):
        raise UserError(f"{crypttab} was edited since: mend it by hand with the help of {before}, then remove {place}")
    found, _ = _one(system, name)
    calls = planning.refreshes(found, planning.now(found), old)
    lines = [join(argv) for argv in calls]
    lines += [f"{crypttab}: as kept in {before}"] if before.exists() else []
    _confirm(person, f"{name}: back to {_summary(old)}", lines)
    _refresh(calls, person)
    if before.exists():
        _write(crypttab, before.read_bytes())
    _prove(system, name, old)
    shutil.rmtree(place)
    _tell(found, old, new, person)


def _one(system: System, name: str) -> tuple[Found, Verdict]:
    facts = looking.look(system)
    for found, verdict in zip(facts.found, judge.judge(facts), strict=True):
        if verdict.name == name:
            return found, verdict
    names = ", ".join(found.mapping.name for found in facts.found)
    raise UserError(f"no dm-crypt mapping {name} is open" + (f"; open are: {names}" if names else ""))


def _confirm(person: Person, what: str, lines: Sequence[str]) -> None:
    person.say("\n    ".join([what, *lines]))
    if person.confirm(f"type {YES} to do this: ") != YES:
        raise UserError("not confirmed, so nothing was changed")


def _tell(found: Found, state: State, other: State, person: Person) -> None:
    person.say(f"{found.mapping.name}: now {_summary(state)}")
    if state.tab != other.tab and (again := planning.rebuild(found)):
        person.say(f"the initramfs has a copy of /etc/crypttab: {again}")


def _kept(system: System, name: str) -> Path:
    return system.path(KEPT) / name


def _keep(system: System, name: str, old: State, new: State) -> None:
    place = _kept(system, name)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.parent.chmod(0o700)
        place.mkdir(mode=0o700)
        (place / "state.json").write_text(json.dumps({"before": _as_dict(old), "after": _as_dict(new)}, indent=2))
    except OSError as error:
        text = f"cannot keep in {place} what is to be changed: {error.strerror}; nothing was changed"
        raise UserError(text) from error


def _as_dict(state: State) -> dict[str, list[str] | None]:
    return {key: None if words is None else sorted(words) for key, words in state.__dict__.items()}


def _state(kept: dict[str, list[str] | None]) -> State:
    words = {key: None if some is None else frozenset(some) for key, some in kept.items()}
    return State(words["table"] or frozenset(), words["header"], words["tab"])


def _refresh(calls: Sequence[Sequence[str]], person: Person) -> None:
    for argv in calls:
        status = person.call([*argv, *(["--key-file", person.key_file] if person.key_file else [])])
        if status != 0:
            raise UserError(f"{join(argv)} ended with exit status {status}")


def _change_crypttab(system: System, found: Found, old: State, new: State) -> None:
    line, place = found.stored.line, _kept(system, found.mapping.name)
    if line is None or new.tab is None or new.tab == old.tab:
        return
    before = system.path(CRYPTTAB).read_bytes()
    text = planning.with_words(before.decode(errors="surrogateescape"), line.number, new.tab)
    after = text.encode(errors="surrogateescape")
    (place / "crypttab.before").write_bytes(before)
    (place / "crypttab.after").write_bytes(after)
    _write(system.path(CRYPTTAB), after)


def _write(path: Path, content: bytes) -> None:
    """Give a file another content, whole or not at all; owner and mode stay."""
    path = path.resolve()
    part = path.with_name(f".{path.name}.dmcrypt-inline")
    try:
        there = path.stat()
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as fresh:
            fresh.write(content)
            os.fchown(fresh.fileno(), there.st_uid, there.st_gid)
            os.fchmod(fresh.fileno(), there.st_mode & 0o7777)
            os.fsync(fresh.fileno())
        part.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _prove(system: System, name: str, wanted: State) -> None:
    """Look again: table, header and crypttab have to say what was wanted."""
    found, _ = _one(system, name)
    seen = planning.now(found)
    table = wanted.table if planning.can_refresh(found) else seen.table
    if seen != State(table, wanted.header, wanted.tab):
        raise UserError(f"{name}: wanted {_summary(wanted)}; found {_summary(seen)}")


def _summary(state: State) -> str:
    parts = [f"in force {planning.said(state.table)}"]
    parts += [] if state.header is None else [f"in the header {planning.said(state.header)}"]
    parts += [] if state.tab is None else [f"in crypttab {planning.said(state.tab)}"]
    return "; ".join(parts)
