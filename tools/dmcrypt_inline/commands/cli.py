"""The command line: the table of stages, and the call of one of them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from ..bench.plans import PLANS
from ..bench.sectors import NATIVE_PLANS
from ..common.errors import UserError
from ..common.jobs import limit_jobs
from ..common.progress import say
from ..common.run import stop_all
from ..guests.guest import COUNTED
from ..guests.machine import UNACCELERATED
from ..testing.package_guests import SCENARIOS
from ..trees.package import default_version
from ..trees.targets import TARGETS
from . import caching, listing, measuring, options, queue, reporting, testing
from .options import CRYPTSETUP, JOBS, LINUX, TARGET, Option, accel, number, option, target
from .request import Request

USAGE = """\
make STAGE [NAME=value ...]
       tools/dmcrypt-inline STAGE [--name value ...]"""
EPILOG = """
TARGET=linux-7.3-fixes    another queue than linux-5.8; make list shows all
TEST=NAME  VARIANT=FILE.c    one test, on a driver of yours
LINUX=DIR  CRYPTSETUP=DIR    your own checkouts, which the tools only read
The file `settings` keeps TARGET, ACCEL, LINUX, CRYPTSETUP and JOBS.
All options of a stage: tools/dmcrypt-inline STAGE --help"""

# Variables that a calling make, git hook or kernel build exports: they would change the make and git that we run.
FOREIGN = (
    *("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "LOCALVERSION"),
    *("KCFLAGS", "KCPPFLAGS", "KAFLAGS", "KRUSTFLAGS", "CF", "LLVM", "LLVM_IAS", "C", "M", "O", "V", "W"),
)
FOREIGN_PREFIXES = ("KBUILD_", "KCONFIG_", "GIT_")


@dataclass(frozen=True)
class Stage:
    """A stage: `call` gets a Request and the values of the other options by their names; `text` is its line of help."""

    call: Callable[..., int]
    text: str
    options: tuple[Option, ...] = ()
    in_make: bool = True


def names(name: str, text: str, dest: str = "") -> Option:
    """An option that takes several names in one word."""
    return option(name, text, dest=dest or name, default="", metavar="'NAME ...'")


LONG_TERM = ", ".join(each.name for each in TARGETS.values() if each.long_term)
ALL_TARGETS = target(f"all except {LONG_TERM}")
TESTED_TARGETS = target(f"all; of {LONG_TERM} only the mails and the regression tests")
TREE = (TARGET, LINUX, CRYPTSETUP)
KERNEL = (TARGET, LINUX, JOBS)
BRANCHED = [replace(each, help="your git repository, which gets a new branch") for each in (LINUX, CRYPTSETUP)]
EMULATED = accel("kvm", "tcg")
ANY_GUEST = accel("kvm", "tcg", UNACCELERATED)
ANY_CLOCK = accel("kvm", "tcg", COUNTED, UNACCELERATED)

CHECKS = names("check", "only these checks", "only")
TESTS = names("test", "only these tests or suites", "tests")
MUTANTS = names("test", "only these mutants, or these tests", "tests")
SYSTEMS = names("test", f"only these: {', '.join(SCENARIOS)}", "tests")
EXCLUDE = names("exclude", "leave out these tests, suites, or parts of make test")
FAILED = option("failed", "only what failed in the last run", action="store_true")
QUICK = option("quick", "the short form of each test, as in make test", action="store_true")
VARIANT = option("variant", "series, base or [NAME=]path/to/dm-crypt.c (default: %(default)s)", default="series")
DRIVERS = option(
    "variant",
    "further drivers, dm-crypt.c files; each: one for each patch",
    **{"dest": "variants", "type": str.split, "default": [], "metavar": "'NAME=PATH ...'"},
)
PLAN = option(
    "plan",
    f"what to measure: {', '.join(PLANS)}; with ACCEL=native: {', '.join(NATIVE_PLANS)} (default: %(default)s)",
    default="full",
)
ROUNDS = option("rounds", "samples of each cell; five at least show a difference", type=number(1), metavar="N")
RESULTS = option("results", "a results file of make bench (default: the newest)", type=Path, metavar="FILE")
MINUTES = option("minutes", "how long (default: %(default)s)", type=number(1), default=60, metavar="N")
SEED = option("seed", "repeat the run that printed this number", type=number(0), default=0, metavar="N")
SIGN = option("sign", "who sends the mails and signs them off", default="", metavar="'NAME <MAIL>'")
TRAILER = option(
    "trailer",
    "a line before the sign-off of each patch, such as 'Assisted-by: NAME' (may be repeated)",
    **{"dest": "trailers", "action": "append", "default": [], "metavar": "'WORD: TEXT'"},
)
POSTING = option("version", "of the posting (default: %(default)s)", type=number(1), default=1, metavar="N")
PACKAGE = option("version", "of the package (default: %(default)s)", default=default_version())
PRUNE = option("prune", "remove what no run has used for so many days", type=number(0), metavar="DAYS")

STAGES = {
    "demo": Stage(
        measuring.demo,
        "build, boot and measure inline dm-crypt, from nothing",
        (*TREE, JOBS, EMULATED),
    ),
    "test": Stage(
        testing.test,
        "all checks and tests; the last line counts them",
        (TESTED_TARGETS, LINUX, CRYPTSETUP, JOBS, EXCLUDE, FAILED),
    ),
    "check": Stage(
        testing.check,
        "the checks that need no guest",
        (ALL_TARGETS, LINUX, CRYPTSETUP, JOBS, CHECKS),
    ),
    "selftest": Stage(
        testing.selftest,
        "the tests of the driver (or of cryptsetup) in guests",
        (*TREE, JOBS, ANY_GUEST, TESTS, EXCLUDE, FAILED, VARIANT, QUICK),
    ),
    "shell": Stage(
        testing.shell,
        "a shell in a guest with the patched kernel and cryptsetup",
        (*TREE, JOBS, ANY_GUEST, VARIANT),
    ),
    "bench": Stage(
        measuring.bench,
        "measure base and series (PLAN=quick: 3 minutes)",
        (*KERNEL, ANY_CLOCK, PLAN, ROUNDS, DRIVERS),
    ),
    "report": Stage(reporting.report, "a page with charts of the newest measurement", (TARGET, RESULTS)),
    "mutants": Stage(
        testing.mutants,
        "run the tests on mutants, which they must catch",
        (*KERNEL, ANY_GUEST, MUTANTS),
    ),
    "bisect-check": Stage(
        testing.bisect_check,
        "the short tests on every commit of the queue (hours)",
        (*KERNEL, ANY_GUEST),
    ),
    "soak": Stage(testing.soak, "random work in a guest (MINUTES=60)", (*KERNEL, ANY_GUEST, MINUTES, SEED)),
    "tree": Stage(queue.tree, "build/TARGET/tree, a git repository of the queue", TREE),
    "edit": Stage(queue.edit, "the same, and how to edit its commits", TREE),
    "refresh": Stage(queue.refresh, "write the edited commits back into the queue", TREE),
    "refresh-selftests": Stage(
        queue.refresh_selftests,
        "write selftests/dm-crypt into the patches that add it",
        (ALL_TARGETS, LINUX),
        in_make=False,
    ),
    "am": Stage(
        queue.am,
        "LINUX=DIR: the queue on a new branch of your own tree",
        (target("the one that fits the tree"), *BRANCHED),
    ),
    "outbox": Stage(
        queue.outbox,
        "SIGN='NAME <MAIL>': patch mails for git send-email",
        (*TREE, SIGN, TRAILER, POSTING),
    ),
    "package": Stage(queue.package, "the fixed dm-crypt as a package for dkms, in build/package", (LINUX, PACKAGE)),
    "package-test": Stage(
        testing.package_test,
        "that package on encrypted Debian systems, as root",
        (LINUX, JOBS, SYSTEMS),
    ),
    "cache": Stage(caching.cache, "list the cache; PRUNE=30: remove what 30 days have not used", (PRUNE,)),
    "list": Stage(listing.show, "targets, tests, mutants, checks, plans and settings"),
    "packages": Stage(listing.packages, "the packages that the tools need, for three distributions"),
    "figures": Stage(
        reporting.figures,
        "print the tables of the newest measurement as Markdown",
        (TARGET, RESULTS),
        in_make=False,
    ),
}


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    lines = [f"  {name:13} {stage.text}" for name, stage in STAGES.items() if stage.in_make]
    top = options.Parser(
        prog="dmcrypt-inline",
        usage=USAGE,
        description="\n".join([*lines, EPILOG]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    top.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    stages = top.add_subparsers(
        prog="dmcrypt-inline", dest="stage", metavar="STAGE", required=True, help=argparse.SUPPRESS
    )
    for name, stage in STAGES.items():
        text = f"{stage.text[0].upper()}{stage.text[1:]}."
        options.add_options(stages.add_parser(name, description=text, allow_abbrev=False), stage.options)
    return top


def clean_environment() -> None:
    """Remove the variables from the environment that would change other programs."""
    known = {each.variable for stage in STAGES.values() for each in stage.options}
    for name in list(os.environ):
        if name in FOREIGN or name in known or name.startswith(FOREIGN_PREFIXES):
            del os.environ[name]


def main(arguments: Sequence[str]) -> int:
    """Run one stage; returns the exit status: 0 done, 1 failed, 130 interrupted.

    The arguments are those that `--help` shows; the Makefile puts its variables, as NAME=value, before the stage.
    """
    for number_of_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number_of_signal, _interrupt)
    try:
        stage, given = _parse(arguments)
        clean_environment()
        return stage(**given)
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


def _parse(arguments: Sequence[str]) -> tuple[Callable[..., int], dict[str, object]]:
    """The function of the stage, and its arguments. Raises UserError for what the stage does not take."""
    variables, words = options.variables(arguments)
    if words and (stage := STAGES.get(words[0])):
        settings = options.from_settings(stage.options) if words[0] != "am" else []
        words = [words[0], *settings, *options.from_make(words[0], stage.options, variables), *words[1:]]
    given = vars(parser().parse_args(words))
    limit_jobs(given.pop("jobs", None))
    own = {name.upper(): path for name in ("linux", "cryptsetup") if (path := given.pop(name, None))}
    request = Request(given.pop("target", None), own, given.pop("accel", None))
    return STAGES[given.pop("stage")].call, {"request": request, **given}


def _failed(message: str) -> int:
    sys.stdout.flush()
    print(f"\ndmcrypt-inline: {message}", file=sys.stderr, flush=True)
    return 1


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End all programs, also those that other threads run, which no signal reaches."""
    stop_all()
    raise KeyboardInterrupt
