"""The command line."""

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shlex import quote

from . import applying, judge, looking, measuring, screen
from .applying import CONFIRMATION, User
from .errors import AdviseError
from .system import System

PROGRAM = "dmcrypt-advise"
say = partial(print, flush=True)
DESCRIPTION = """\
Check every open dm-crypt mapping: do the flags help on its disks, are they safe
with this kernel, and does the next boot set them? Print the advice with its
reasons and the commands to type. Only --apply and --undo change anything. The
program never reads or prints a key. Without root it checks less and says so.
"""
EPILOG = """\
exit status:
  0  nothing to do, or no mapping is open; with an option: done
  1  there is advice
  2  the program cannot tell for some mapping; wrong command line; with an
     option: rejected or failed
"""


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=78),
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--json", action="store_true", help="print the advice as JSON")
    helps = {
        "--apply": "set the advised flags in the LUKS2 header and in the open mapping, and keep all other options;"
        " print what remains to do by hand, such as the line for /etc/crypttab",
        "--undo": "remove both flags from the LUKS2 header and from the open mapping, and keep all other options",
        "--measure": "compare reads from the disk below the mapping, through dm-crypt's default path, and with each"
        " flag; write the figures to dmcrypt-advise-DATE.json; the disk is only read",
    }
    for option, text in helps.items():
        action.add_argument(option, metavar="NAME", help=text)
    parser.add_argument("--seconds", type=float, default=120.0, help="duration of --measure (default: %(default)g)")
    parser.add_argument("--yes", action="store_true", help="change without asking for confirmation")
    text = "key file for cryptsetup, which asks for the passphrase otherwise"
    parser.add_argument("--key-file", default="", metavar="FILE", help=text)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status, as EPILOG lists it, or 130 after an interrupt."""
    try:
        return _run(option_parser().parse_args(arguments))
    except (AdviseError, OSError) as error:
        print(f"{PROGRAM}: {_complete(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    system = System()
    if options.measure:
        for number in (signal.SIGTERM, signal.SIGHUP):  # the mappings must not outlive the program
            signal.signal(number, signal.default_int_handler)
        path = measuring.save(measuring.measure(system, options.measure, options.seconds, say), Path())
        say(f"{path}: all figures with hardware, kernel and cipher, but no host or serial number: please publish it")
        return 0
    if name := options.apply or options.undo:
        user = User(
            lambda text: say(_complete(text)), (lambda _: CONFIRMATION) if options.yes else _ask, options.key_file
        )
        (applying.apply if options.apply else applying.undo)(system, name, user)
        return 0
    facts = looking.look(system)
    verdicts = judge.judge(facts)
    sys.stdout.write(screen.as_json(facts, verdicts) if options.json else screen.text(facts, verdicts, _as_root()))
    return max((verdict.status for verdict in verdicts), default=0)


def _complete(message: str) -> str:
    return screen.complete(message, _as_root()).replace(screen.UNBROKEN, " ")


def _as_root() -> str:
    """The command that starts this program as root: by its path, or as a module."""
    if Path(sys.argv[0]).name == "__main__.py":
        return "sudo python3 -m dmcrypt_advise"
    return f"sudo {quote(sys.argv[0])}"  # by its path: sudo does not search ~/.local/bin


def _ask(question: str) -> str:
    try:
        return input(question)
    except EOFError:
        return ""
