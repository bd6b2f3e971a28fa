"""Set or remove the flags in the LUKS2 header and in the open mapping, and check the result.

cryptsetup makes every change. The program keeps no state: undoing an advice means removing both flags.
"""

import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shlex import join

from . import judge, looking, planning
from .errors import AdviseError
from .judge import SET, TAKE_BACK
from .looking import MappingFacts
from .mappings import FLAGS
from .planning import OptionState
from .system import System, program_environment

CONFIRMATION = "yes"


def call_on_terminal(argv: Sequence[str]) -> int:
    """Run a program that may ask for a passphrase on the terminal; returns its exit status.

    An interrupt never kills the program: a refresh that is cut off can leave the mapping suspended. The interrupt
    takes effect when the program has ended.
    """
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))  # programs do not inherit it
    try:
        status = subprocess.run(argv, env=program_environment(), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
    return status


@dataclass(frozen=True)
class User:
    """The user at the terminal: gets messages, confirms changes, and gives cryptsetup a passphrase or a key file."""

    say: Callable[[str], None]
    confirm: Callable[[str], str]
    key_file: str = ""
    call: Callable[[Sequence[str]], int] = call_on_terminal


def apply(system: System, name: str, user: User) -> None:
    """Carry out the advice for a mapping.

    Raises AdviseError, with the reason, if there is nothing to change, if a defect of this kernel forbids the change,
    or if the result is wrong.
    """
    found, verdict = judge.find_mapping(looking.look(system), name)
    if verdict.advice not in (SET, TAKE_BACK):
        raise AdviseError("\n    ".join([f"{name}: nothing was changed. {verdict.headline}", *verdict.reasons]))
    _change(system, found, judge.target_state(found, verdict), verdict.flags, user)


def undo(system: System, name: str, user: User) -> None:
    """Remove both flags and keep all other options. Raises AdviseError as `apply` does."""
    facts = looking.look(system)
    found, _ = judge.find_mapping(facts, name)
    if reason := judge.cannot_judge(found, facts) or judge.hindrance(found):
        raise AdviseError(f"{name}: {reason[1]}; nothing was changed")
    new = planning.changed_state(found, remove=frozenset(FLAGS))
    _change(system, found, new, frozenset(FLAGS), user)


def _change(system: System, found: MappingFacts, new: OptionState, flags: frozenset[str], user: User) -> None:
    """Ask, call cryptsetup, check the result, and print the manual steps that remain."""
    name, old = found.mapping.name, planning.current_state(found)
    calls = planning.refresh_calls(found, old, new)
    steps = planning.manual_steps(found, old, new, flags)
    if not calls:
        raise AdviseError("\n    ".join([f"{name}: this program can change nothing here", *steps]))
    texts = [join(call) for call in calls]
    also = new.active - old.active - flags
    notes = [f"this also activates what the header stores: {planning.option_list(also)}"] if also else []
    user.say("\n    ".join([f"{name}: {_summary(new)}", *texts, *notes]))
    if user.confirm(f"type {CONFIRMATION} to run this: ") != CONFIRMATION:
        raise AdviseError("not confirmed; nothing was changed")
    for number, call in enumerate(calls):
        remaining = "\n    ".join(["commands that did not run to their end:", *texts[number:]])
        try:
            status = user.call([*call, *(["--key-file", user.key_file] if user.key_file else [])])
        except KeyboardInterrupt:
            user.say(f"interrupted; {remaining}")
            raise
        if status != 0:
            raise AdviseError(f"cryptsetup ended with exit status {status}; {remaining}")
    facts = looking.look(system)
    found, _ = judge.find_mapping(facts, name)
    seen, forced = planning.current_state(found), judge.forced_flags(found, facts)
    if (seen.active - forced, seen.header) != (new.active - forced, new.header):
        raise AdviseError(f"{name}: wrong result: wanted {_summary(new)}; found {_summary(seen)}")
    user.say(f"{name}: done: {_summary(new)}")
    for step in steps:
        user.say(f"by hand, for the next boot:\n{step}")


def _summary(state: OptionState) -> str:
    stored = "" if state.header is None else f"; stored in the header: {planning.option_list(state.header)}"
    return f"active: {planning.option_list(state.active)}{stored}"
