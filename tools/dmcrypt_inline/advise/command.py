"""The command line of advise, with and without a clone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..common.errors import UserError
from . import judge, looking, screen
from .system import System

PROGRAM = "dmcrypt-inline"
SUMMARY = "do no_read_workqueue and no_write_workqueue help on this machine, are they safe, how do they stay"
DESCRIPTION = """\
Look at every open dm-crypt mapping, what it lies on, what is stored for the
next boot, and at the running kernel; say what to do, why, and how to take it
back. Nothing is changed. No key is ever read. As a user
it sees less, and says what it did not see.
"""
EPILOG = """\
exit status:
  0  nothing to do (also: no mapping is open)
  1  something is advised
  2  for a mapping, it cannot be told; or the command line is wrong
"""


def add_arguments(stage: argparse.ArgumentParser) -> None:
    """Give a parser the arguments of advise."""
    stage.description, stage.epilog = DESCRIPTION, EPILOG
    stage.formatter_class = argparse.RawDescriptionHelpFormatter
    stage.add_argument("--json", action="store_true", help="for scripts")


def run(json: bool, *, system: System | None = None) -> int:
    """Carry out the command line; returns the exit status, as EPILOG has it."""
    system = system or System()
    try:
        facts = looking.look(system)
        verdicts = judge.judge(facts)
        sys.stdout.write((screen.as_json if json else screen.text)(facts, verdicts))
    except UserError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    return max((verdict.status for verdict in verdicts), default=0)


def parser() -> argparse.ArgumentParser:
    """The whole command line where there is no clone: advise alone."""
    top = argparse.ArgumentParser(prog=PROGRAM, description="All other stages work in a clone: tools/dmcrypt-inline.")
    add_arguments(top.add_subparsers(dest="stage", metavar="STAGE", required=True).add_parser("advise", help=SUMMARY))
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """The installed program."""
    given = vars(parser().parse_args(arguments))
    del given["stage"]
    try:
        return run(**given)
    except KeyboardInterrupt:
        return 130
