"""The command line: one sub-command a stage, and those that do it all."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from ..common.errors import UserError
from ..common.progress import say
from ..common.run import stop_all
from . import caching, measuring, queue, reporting, testing
from .request import Request, add_stage

DESCRIPTION = """\
Prepare, build, boot, test and measure the inline dm-crypt patch queues.

The stages, each using what the ones before it left in build/<target> and in
the cache: base tree -> queue applied (tree) -> built -> booted in a guest.
What a benchmark measured is shown by report, figures and compare.
"""

# Left by a calling make, git hook or kernel work: each would change what our own make and git do.
FOREIGN = (
    *("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "LOCALVERSION"),
    *("KCFLAGS", "KCPPFLAGS", "KAFLAGS", "KRUSTFLAGS", "CF", "LLVM", "LLVM_IAS"),
)
FOREIGN_PREFIXES = ("KBUILD_", "KCONFIG_", "GIT_")
FOREIGN_SHORT = (
    *("C", "M", "O", "V", "W", "TARGET", "LINUX", "CRYPTSETUP", "ACCEL", "PLAN", "VARIANT", "TEST", "MINUTES", "SEED"),
    *("PRUNE", "SIGN", "TRAILER", "VERSION"),
)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="dmcrypt-inline", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stages = top.add_subparsers(title="stages", dest="stage", metavar="STAGE", required=True)
    for group in (queue, testing, measuring, reporting, caching):
        group.register(partial(add_stage, stages))
    return top


def clean_environment() -> None:
    """Take out of our environment what would steer the programs we run."""
    for name in list(os.environ):
        if name in FOREIGN or name in FOREIGN_SHORT or name.startswith(FOREIGN_PREFIXES):
            del os.environ[name]


def main(arguments: Sequence[str]) -> int:
    """Run one stage; returns the exit status: 0 done, 1 failed, 130 interrupted."""
    given = vars(parser().parse_args(arguments))
    clean_environment()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    own = {name.upper(): _place(path) for name in ("linux", "cryptsetup") if (path := given.pop(name, None))}
    request = Request(given.pop("target", None), own, given.pop("accel", None))
    del given["stage"]
    try:
        return int(given.pop("call")(request, **given))
    except UserError as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        say("\ninterrupted; run the same command again to go on")
        return 130
    except BrokenPipeError:  # the reader of the output has ended: Python must not try to write the rest at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a full disk, or a directory that another user owns
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _failed(message: str) -> int:
    sys.stdout.flush()
    print(f"\ndmcrypt-inline: {message}", file=sys.stderr, flush=True)
    return 1


def _place(path: str) -> Path:
    """A directory of the user's; the shell leaves the ~ of LINUX=~/x to us."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:  # ~nobody: where it is wanted, it is said not to exist
        return Path(path).absolute()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Children are killed, half-made things removed. Guests may run in other threads, which nobody interrupts."""
    stop_all()
    raise KeyboardInterrupt
