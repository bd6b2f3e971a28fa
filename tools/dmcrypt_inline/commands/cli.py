"""The command line: the table of stages, and the call of one of them."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType

from ..bench.plans import PLANS
from ..bench.sectors import NATIVE_PLANS
from ..common.errors import UserError
from ..common.progress import say
from ..common.run import stop_all
from ..guests.guest import COUNTED
from ..guests.machine import UNACCELERATED
from ..testing.package_guests import SCENARIOS
from ..testing.proof import PROOF_KINDS
from ..trees.package import default_version
from ..trees.targets import DEFAULT, PROCESSORS, TARGETS, VARIABLES
from . import caching, listing, measuring, queue, testing
from .options import Parser, accel, directory, flag, names, number, option
from .request import Request

USAGE = """\
usage: make STAGE [NAME=value ...]
       tools/dmcrypt-inline STAGE [--name value ...]"""
EPILOG = """
TARGET=linux-7.3-fixes    another queue than linux-5.8; make list shows all
TEST=NAME  VARIANT=FILE.c    one test, on a driver of yours
ACCEL=native              User-Mode Linux, the fastest; otherwise QEMU
LINUX= CRYPTSETUP= DRACUT= SYSTEMD=DIR    your checkout; only `am` adds a branch
All options of a stage: tools/dmcrypt-inline STAGE --help"""

# Variables that a calling make, git hook or kernel build exports: they would change the make and git that we run.
FOREIGN = (
    *("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "LOCALVERSION"),
    *("KCFLAGS", "KCPPFLAGS", "KAFLAGS", "KRUSTFLAGS", "CF", "LLVM", "LLVM_IAS", "C", "M", "O", "V", "W"),
)
FOREIGN_PREFIXES = ("KBUILD_", "KCONFIG_", "GIT_")


@dataclass(frozen=True)
class Stage:
    """A stage of the command line.

    `call` gets a Request, and the values of the options that Request does not have, and may return an exit status.
    `text` is the line of help.
    """

    call: Callable[..., int | None]
    text: str
    options: tuple[argparse.ArgumentParser, ...] = ()


def target(default: str) -> argparse.ArgumentParser:
    """The option --target of a stage."""
    return option("target", f"one of {', '.join(TARGETS)} (default: {default})", metavar="NAME")


TARGET = target(DEFAULT)
LONG_TERM = ", ".join(each.name for each in TARGETS.values() if each.long_term)
ALL_TARGETS = target(f"all except {LONG_TERM}")
TESTED_TARGETS = target(f"all; of {LONG_TERM} only the mails and the regression tests")
OWN = tuple(
    option(variable.lower(), "your own checkout; only make am changes it", metavar="DIR", type=directory)
    for variable in VARIABLES
)
LINUX = OWN[0]
TREE = (TARGET, *OWN)
KERNEL = (TARGET, LINUX)
EMULATED = accel("kvm", "tcg")
ANY_GUEST = accel("kvm", "tcg", UNACCELERATED)
ANY_CLOCK = accel("kvm", "tcg", COUNTED, UNACCELERATED)

CHECKS = names("check", "only these checks; an unknown name lists all", "only")
TESTS = names("test", "only these tests or suites", "tests")
MUTANTS = names("test", "only these mutants", "tests")
SYSTEMS = names("test", f"only these: {', '.join(SCENARIOS)}", "tests")
EXCLUDE = names("exclude", "leave out these tests or suites", "exclude")
BLKTESTS = option("blktests", "a checkout of blktests, to run its own check", metavar="DIR", type=directory)
XFSTESTS = option("xfstests", "a checkout of xfstests, built", metavar="DIR", type=directory)
QUICK = flag("quick", "the short form of each test, as in make test")
VARIANT = option("variant", "series, base or [NAME=]path/to/dm-crypt.c (default: %(default)s)", default="series")
DRIVERS = option(
    "variant",
    "further drivers, dm-crypt.c files",
    **{"dest": "variants", "type": str.split, "default": [], "metavar": "'NAME=PATH ...'"},
)
PLAN = option(
    "plan",
    f"what to measure: {', '.join(PLANS)}; with ACCEL=native: {', '.join(NATIVE_PLANS)} (default: %(default)s)",
    default="full",
)
ROUNDS = option("rounds", "samples of each cell; five at least show a difference", type=number(1), metavar="N")
RESULTS = option("results", "a results file of make bench (default: the newest)", type=Path, metavar="FILE")
MINUTES = option(
    "minutes", "duration of soak, hotplug, kcsan, fuzz (default: %(default)s)", type=number(1), default=60, metavar="N"
)
ARCH = option("arch", f"another processor: {' or '.join(PROCESSORS)}", choices=PROCESSORS, default="")
WHAT = option("what", f"one of {', '.join(PROOF_KINDS)} (default: %(default)s)", choices=PROOF_KINDS, default="soak")
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
    "demo": Stage(measuring.demo, "build, boot and measure inline dm-crypt, from nothing", (*TREE, EMULATED)),
    "test": Stage(testing.test, "the usual checks and tests; the last line counts them", (TESTED_TARGETS, *OWN)),
    "check": Stage(testing.check, "the checks that need no guest", (ALL_TARGETS, *OWN, CHECKS)),
    "selftest": Stage(
        testing.selftest,
        "the tests of the driver (or of a program) in guests",
        (*TREE, TESTS, EXCLUDE, VARIANT, QUICK, BLKTESTS, ANY_GUEST),
    ),
    "shell": Stage(
        testing.shell, "a shell in a guest with the patched kernel and cryptsetup", (*TREE, VARIANT, ARCH, ANY_GUEST)
    ),
    "bench": Stage(
        measuring.bench, "measure base and series (PLAN=quick: 3 minutes)", (*KERNEL, PLAN, ROUNDS, DRIVERS, ANY_CLOCK)
    ),
    "report": Stage(measuring.report, "tables of the newest measurement, and a page with charts", (TARGET, RESULTS)),
    "mutants": Stage(testing.mutants, "run the tests on mutants, which they must catch", (*KERNEL, MUTANTS, ANY_GUEST)),
    "bisect-check": Stage(
        testing.bisect_check, "the short tests on every commit of the queue (hours)", (*KERNEL, ANY_GUEST)
    ),
    "prove": Stage(
        testing.prove,
        "WHAT=rt: the tests on PREEMPT_RT; others are in docs/proof.md",
        (*KERNEL, WHAT, TESTS, MINUTES, SEED, EMULATED),
    ),
    "outside": Stage(
        testing.outside,
        "BLKTESTS= XFSTESTS=DIR: these test suites, with base and queue",
        (*KERNEL, TESTS, BLKTESTS, XFSTESTS),
    ),
    "tree": Stage(queue.tree, "build/TARGET/tree, a git repository of the queue", TREE),
    "refresh": Stage(queue.refresh, "write edited commits and selftests back into the queue", TREE),
    "am": Stage(
        queue.am,
        "LINUX=DIR: the queue on a new branch of your own tree",
        (target("the one that fits the tree"), *OWN),
    ),
    "outbox": Stage(
        queue.outbox, "SIGN='NAME <MAIL>': patch mails for git send-email", (*TREE, SIGN, TRAILER, POSTING)
    ),
    "package": Stage(queue.package, "the fixed dm-crypt as a package for dkms, in build/package", (LINUX, PACKAGE)),
    "package-test": Stage(testing.package_test, "test the package on Debian guests in QEMU, as root", (LINUX, SYSTEMS)),
    "cache": Stage(caching.cache, "list the cache; PRUNE=30: remove what 30 days have not used", (PRUNE,)),
    "list": Stage(listing.list_names, "targets, tests and mutants"),
    "packages": Stage(listing.list_packages, "the packages that the tools need, for three distributions"),
}


def stage_parser(name: str) -> Parser:
    """The parser of a stage's options. Raises UserError for an unknown stage."""
    if name not in STAGES:
        raise UserError(f"there is no stage {name}; the stages are: {', '.join(STAGES)}")
    stage = STAGES[name]
    text = f"{stage.text[0].upper()}{stage.text[1:]}."
    return Parser(prog=f"dmcrypt-inline {name}", description=text, parents=stage.options, allow_abbrev=False)


def clean_environment(variables: Iterable[str]) -> None:
    """Remove from the environment make's variables, and those that would change other programs."""
    given = {word.partition("=")[0] for word in variables}
    for name in list(os.environ):
        if name in FOREIGN or name in given or name.startswith(FOREIGN_PREFIXES):
            del os.environ[name]


def main(arguments: Sequence[str]) -> int:
    """Run one stage; returns the exit status: 0 done, 1 failed, 130 interrupted.

    The arguments are those that `--help` shows; the Makefile puts its variables, as NAME=value, before the stage.
    """
    for number_of_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number_of_signal, _interrupt)
    variables = list(takewhile(lambda word: "=" in word, arguments))
    words = arguments[len(variables) :]
    if not words or words[0] in ("-h", "--help"):
        say("\n".join([USAGE, "", *(f"  {name:13} {stage.text}" for name, stage in STAGES.items()), EPILOG]))
        return 0
    try:
        stage, given = _parse(variables, *words)
        clean_environment(variables)
        return stage.call(**given) or 0
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


def _parse(variables: Sequence[str], name: str, *words: str) -> tuple[Stage, dict[str, object]]:
    """The stage, and the arguments of its function. Raises UserError for what the stage does not take."""
    pairs = [word.partition("=") for word in variables]
    of_make = [f"--{key.lower()}={value}" for key, _, value in pairs if value]  # an empty value means none
    given = vars(stage_parser(name).parse_args([*of_make, *words]))
    own = {each: path for each in VARIABLES if (path := given.pop(each.lower(), None))}
    request = Request(given.pop("target", None), own, given.pop("accel", None))
    return STAGES[name], {"request": request, **given}


def _failed(message: str) -> int:
    sys.stdout.flush()
    print(f"\ndmcrypt-inline: {message}", file=sys.stderr, flush=True)
    return 1


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End all programs, also those that other threads run, which no signal reaches."""
    stop_all()
    raise KeyboardInterrupt
