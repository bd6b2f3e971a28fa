"""The command line: one sub-command a stage, and the two that do it all."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from . import commands
from .bench import Wanted
from .compare import TO
from .errors import UserError
from .guest import COUNTED
from .machine import UNACCELERATED
from .outbox import Posting
from .progress import say
from .run import stop_all
from .stats import METRICS
from .targets import DEFAULT, TARGETS
from .workloads import PLANS

DESCRIPTION = """\
Prepare, build, boot, test and measure the inline dm-crypt patch queues.

The stages, each using what the ones before it left in build/<target> and in
the cache: base tree -> queue applied (tree) -> built -> booted in a guest.
What a benchmark measured is shown by report, figures and compare.
"""

RESULTS_HELP = {
    "report": "a results file of make bench (default: the target's last)",
    "figures": "keep the W1 of this results file for the figures first (default: what is kept)",
}

UNACCELERATED_STAGES = ("selftest", "soak", "mutants", "bisect-check")
OF_ALL = ("check", "test", "refresh-selftests")  # without --target

# Left by a calling make, git hook or kernel work: each would change what our own make and git do.
FOREIGN = (
    *("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "LOCALVERSION"),
    *("KCFLAGS", "KCPPFLAGS", "KAFLAGS", "KRUSTFLAGS", "CF", "LLVM", "LLVM_IAS"),
)
FOREIGN_PREFIXES = ("KBUILD_", "KCONFIG_", "GIT_")
FOREIGN_SHORT = (
    "C",
    "M",
    "O",
    "V",
    "W",
    "TARGET",
    "LINUX",
    "CRYPTSETUP",
    "ACCEL",
    "PLAN",
    "VARIANT",
    "TEST",
    "MINUTES",
    "SEED",
    "HERE",
    "DEVICE",
    "DESTROY_DATA",
    "SIGN",
    "TRAILER",
    "VERSION",
)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="dmcrypt-inline", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stages = top.add_subparsers(title="stages", dest="stage", metavar="STAGE", required=True)
    for name, text in (
        ("tree", "make build/<target>/tree, a git repository with the tags base and series"),
        (
            "check",
            "no guest: lint of patches, cover letters, shell, Python and text; each patch builds without warnings",
        ),
        ("test", "check, the tools' own tests, and the guest tests; the last line counts them"),
        ("demo", "from nothing to a booted kernel with inline dm-crypt, shown and measured"),
        (
            "selftest",
            "the tests of selftests/ on the debug kernel, in a guest; or the tests of cryptsetup",
        ),
        ("soak", "random work on all sorts of mappings in a guest, for as long as wanted"),
        ("bench", "measure base, series and other dm-crypt modules in one guest boot, or the running kernel"),
        ("mutants", "each driver that is wrong on purpose against the selftests that must catch it (takes long)"),
        (
            "bisect-check",
            "the kselftests in their short form on every commit of the queue (takes hours; less with --accel native)",
        ),
        ("edit", "make the tree and say how to edit the queue's patches as commits"),
        ("refresh", "write the commits of build/<target>/tree back into the queue"),
        ("refresh-selftests", "put the files of selftests/dm-crypt into the patches that add them"),
        ("am", "commit the queue that suits your own tree on a new branch there"),
        ("outbox", "build/<target>/outbox: the queue as mails, signed off by who sends; nothing is sent"),
        ("report", "build/<target>/report: what a benchmark measured, as a page with charts and as a summary"),
        ("figures", "write the tables and the chart of README and cover letters from the results kept for them"),
        ("compare", "what changed between two results files, judged by ratios that each took within one boot"),
    ):
        stage = stages.add_parser(
            name, parents=[_common(name)], help=text, description=text[0].upper() + text[1:] + "."
        )
        if name == "selftest":
            stage.add_argument("--quick", action="store_true", help="the short form of each test, as `test` runs them")
            stage.add_argument(
                "--variant",
                default="series",
                metavar="VARIANT",
                help="which dm-crypt: series, base or [NAME=]path/to/dm-crypt.c (default: %(default)s)",
            )
            _test_option(stage, "only these tests, or suites (default: all)")
        if name == "soak":
            stage.add_argument("--minutes", type=int, default=60, help="for how long (default: %(default)s)")
            stage.add_argument("--seed", type=int, default=0, help="of what is random, to repeat a run (default: any)")
        if name in ("report", "figures"):
            stage.add_argument("--results", dest="files", nargs=1, type=Path, metavar="FILE", help=RESULTS_HELP[name])
        if name == "figures":
            stage.add_argument(
                "--check", dest="only_check", action="store_true", help="write nothing, say what is stale"
            )
        if name == "compare":
            _add_compare(stage)
        if name == "outbox":
            _outbox_options(stage)
        if name == "bench":
            _bench_options(stage)
        if name == "mutants":
            _test_option(stage, "only these drivers, or those that these tests must catch (default: all)")
    return top


def _test_option(stage: argparse.ArgumentParser, what: str) -> None:
    stage.add_argument("--test", dest="tests", default="", metavar="NAMES", help=what)


def _common(stage: str) -> argparse.ArgumentParser:
    """The options of every stage, as this one takes them."""
    common = argparse.ArgumentParser(add_help=False)
    default = "all" if stage in OF_ALL else DEFAULT
    own = "checkout or source tree; it is only read (default: the embedded base)"
    if stage == "am":
        default = "the one that suits the tree"
        own = "git repository, which gets a new branch; work tree and index stay as they are"
    common.add_argument("--target", help=f"what the queue applies to: {', '.join(TARGETS)} (default: {default})")
    for option, what in (("--linux", "kernel"), ("--cryptsetup", "cryptsetup")):
        common.add_argument(option, metavar="DIR", help=f"your own {what} {own}")
    common.add_argument(
        "--accel",
        choices=("kvm", "tcg", UNACCELERATED, COUNTED),
        help="how the guest runs (default: KVM where a trial boot works, else TCG); native, which "
        f"is User-Mode Linux, is for {', '.join(UNACCELERATED_STAGES)}; "
        "icount, which is TCG with one CPU and a clock that counts its instructions, is for bench",
    )
    return common


def _add_compare(stage: argparse.ArgumentParser) -> None:
    stage.add_argument("files", nargs=2, metavar="FILE", type=Path, help="A and B, two results files of make bench")
    stage.add_argument(
        "--metric", choices=tuple(METRICS), default="throughput", help="which figure (default: %(default)s)"
    )
    stage.add_argument(
        "--to",
        choices=TO,
        default=TO[0],
        help="divide by the base's default path or by the raw device of the same boot (default: %(default)s)",
    )


def _outbox_options(stage: argparse.ArgumentParser) -> None:
    stage.add_argument("--sign", default="", metavar='"NAME <MAIL>"', help="who sends the mails and signs them off")
    stage.add_argument(
        "--trailer",
        dest="trailers",
        action="append",
        default=[],
        metavar="TRAILER",
        help="a line before the sign-off of each patch, such as 'Assisted-by: NAME' (may be given more than once)",
    )
    stage.add_argument("--version", type=int, default=1, metavar="N", help="of the posting (default: %(default)s)")


def _bench_options(stage: argparse.ArgumentParser) -> None:
    limits = ", ".join(f"{name} ({plan.seconds / 60:.0f} min)" for name, plan in PLANS.items())
    stage.add_argument(
        "--plan", default="full", help=f"what to measure, and for how long at most: {limits} (default: %(default)s)"
    )
    stage.add_argument(
        "--variant",
        dest="variants",
        nargs="+",
        default=[],
        metavar="NAME=PATH",
        help="further drivers: dm-crypt.c, or a dm-crypt.ko that was built for the fast kernel; "
        "or `each`: the queue's patches one by one",
    )
    stage.add_argument("--here", action="store_true", help="on the running kernel, as root, instead of in a guest")
    stage.add_argument(
        "--device",
        default="",
        metavar="DEVICE",
        help="with --here: a device of yours instead of those made in memory; it is only read unless --destroy-data "
        "names it too, and refused where it is mounted or in use",
    )
    stage.add_argument(
        "--destroy-data",
        default="",
        metavar="DEVICE",
        help="overwrite the device: its name once more, exactly as given to --device",
    )


def clean_environment() -> None:
    """Take out of our environment what would steer the programs we run."""
    for name in list(os.environ):
        if name in FOREIGN or name in FOREIGN_SHORT or name.startswith(FOREIGN_PREFIXES):
            del os.environ[name]


def main(arguments: Sequence[str]) -> int:
    """Run one stage; returns the exit status: 0 done, 1 failed, 130 interrupted."""
    given = parser().parse_args(arguments)
    if given.accel == UNACCELERATED and given.stage not in UNACCELERATED_STAGES:
        parser().error(f"--accel native (ACCEL=native) is for {', '.join(UNACCELERATED_STAGES)} only")
    if given.accel == COUNTED and given.stage != "bench":
        parser().error("--accel icount (ACCEL=icount) is for bench only")
    clean_environment()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    own = {"LINUX": given.linux, "CRYPTSETUP": given.cryptsetup}
    request = commands.Request(
        given.target,
        {name: _place(path) for name, path in own.items() if path},
        given.accel,
        getattr(given, "quick", False),
        getattr(given, "variant", "series"),
        tuple(getattr(given, "tests", "").split()),
        getattr(given, "minutes", 60),
        getattr(given, "seed", 0),
        tuple(getattr(given, "files", None) or ()),
        getattr(given, "metric", ""),
        getattr(given, "to", ""),
        getattr(given, "only_check", False),
        bench=_bench(given),
        posting=_posting(given),
    )
    try:
        return commands.COMMANDS[given.stage](request)
    except UserError as error:
        sys.stdout.flush()
        print(f"\ndmcrypt-inline: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; run the same command again to go on")
        return 130
    except BrokenPipeError:  # who read along has gone: nothing can be said any more, not even at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _place(path: str) -> Path:
    """A directory of the user's; the shell leaves the ~ of LINUX=~/x to us."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:  # ~nobody: where it is wanted, it is said not to exist
        return Path(path).absolute()


def _bench(given: argparse.Namespace) -> Wanted:
    if given.stage != "bench":
        return Wanted()
    return Wanted(given.plan, tuple(given.variants), given.here, given.device, given.destroy_data)


def _posting(given: argparse.Namespace) -> Posting:
    if given.stage != "outbox":
        return Posting("")
    return Posting(given.sign, tuple(given.trailers), given.version)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Children are killed, half-made things removed. Guests may run in other threads, which nobody interrupts."""
    stop_all()
    raise KeyboardInterrupt
