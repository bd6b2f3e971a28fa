"""The command line."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from . import applying, judge, looking, measuring, screen
from .applying import YES, Person
from .errors import AdviseError
from .system import System

PROGRAM = "dmcrypt-advise"
SUMMARY = "do no_read_workqueue and no_write_workqueue help on this machine, are they safe, how do they stay"
DESCRIPTION = """\
Look at every open dm-crypt mapping, what it lies on, what is stored for the
next boot, and at the running kernel; say what to do, why, and how to take it
back. Only --apply and --undo change anything. No key is kept or said. As a user
it sees less, and says what it did not see.
"""
EPILOG = """\
exit status:
  0  nothing to do (also: no mapping is open); with options: done
  1  something is advised
  2  for a mapping, it cannot be told; the command line is wrong; with options:
     refused or failed

files:
  /var/lib/dmcrypt-advise/NAME  what --apply changed, for --undo: flags and
                                /etc/crypttab, no LUKS header
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    stage = argparse.ArgumentParser(
        prog=PROGRAM, description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = stage.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="for scripts")
    text = "do what is advised for a mapping: header or crypttab, and what is open; what is changed is kept"
    what.add_argument("--apply", metavar="NAME", help=text)
    text = "default path against each flag, on the disk of a mapping, which is only read; writes on a RAM disk"
    what.add_argument("--measure", metavar="NAME", help=text)
    what.add_argument("--undo", metavar="NAME", help="take back what --apply changed")
    stage.add_argument("--seconds", type=float, default=120.0, help="how long --measure takes (default: %(default)g)")
    stage.add_argument("--yes", action="store_true", help="do not ask before a change")
    text = "for cryptsetup, in place of a passphrase, which it asks for itself"
    stage.add_argument("--key-file", default="", metavar="FILE", help=text)
    return stage


def run(
    *,
    json: bool = False,
    apply: str | None = None,
    undo: str | None = None,
    measure: str | None = None,
    seconds: float = 120.0,
    yes: bool = False,
    key_file: str = "",
    system: System | None = None,
) -> int:
    """Carry out the command line; returns the exit status, as EPILOG has it."""
    system = system or System()
    person = Person(say=_say, confirm=(lambda _: YES) if yes else _ask, key_file=key_file)
    try:
        if measure:
            for number in (signal.SIGTERM, signal.SIGHUP):  # its mappings are not to outlive it
                signal.signal(number, signal.default_int_handler)
            measuring.measure(system, measure, seconds, _say)
            return 0
        if name := apply or undo:
            (applying.apply if apply else applying.undo)(system, name, person)
            return 0
        facts = looking.look(system)
        verdicts = judge.judge(facts)
        sys.stdout.write((screen.as_json if json else screen.text)(facts, verdicts))
    except AdviseError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    return max((verdict.status for verdict in verdicts), default=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status, as EPILOG has it, or 130 when interrupted."""
    try:
        return run(**vars(parser().parse_args(arguments)))
    except KeyboardInterrupt:
        return 130


def _say(line: str) -> None:
    print(line, flush=True)


def _ask(question: str) -> str:
    try:
        return input(question)
    except EOFError:
        return ""
