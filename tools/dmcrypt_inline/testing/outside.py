"""Run the test suites blktests and xfstests on dm-crypt, with the driver of the base and with that of the queue."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.counts import Counts
from ..common.errors import UserError
from ..guests.guest import run_guest
from ..guests.kernel_log import IO_ERROR, find_warnings
from ..kernels.build import Module
from ..trees.targets import XFSTESTS, Target
from .guest_tests import MARK, Guests
from .results import Outcome
from .suites import Suite, printer

LIMIT, BOOT_SECONDS = 600, 120  # seconds for a test, and for the rest of a guest
MEMORY = "3G"  # with two RAM disks of 1 GiB, which few tests fill

BOTH = "no_read_workqueue no_write_workqueue"
MODES: dict[str, Mapping[str, str]] = {  # the variables of outside.sh
    "blktests/default": {},
    "blktests/no_read_workqueue": {"OPTIONS": "no_read_workqueue"},
    "blktests/no_write_workqueue": {"OPTIONS": "no_write_workqueue"},
    "blktests/both": {"OPTIONS": BOTH},
    "blktests/both-4096": {"OPTIONS": f"{BOTH} sector_size:4096 iv_large_sectors"},
    "blktests/both-cryptd": {"OPTIONS": BOTH, "CRYPTD": "1"},
    "blktests/zoned": {"OPTIONS": BOTH, "ZONED": "1"},
    "xfstests/ext4": {"OPTIONS": BOTH, "FSTYP": "ext4"},
    "xfstests/xfs": {"OPTIONS": BOTH, "FSTYP": "xfs"},
}
EXCLUDED = {"block/036"}  # rereads the partition table, which a mapping does not have
# Short tests of xfstests: reads and writes of all kinds, then power failures and I/O errors.
GENERIC = """
    001 014 029 030 036 075 080 091 112 130 141 169 198 207 209 210 212 214 215 239 240 246 247 248 249 263 290
    393 422 427 443 446 451 465 466
    034 039 040 041 056 057 059 065 066 073 090 101 104 106 107 321 322 325 335 336 338 341 342 343 348 376 441
    """

PASS, SKIP, FAIL = VERDICTS = "pass", "skip", "fail"  # outside.sh prints them
LINE = re.compile(r"^(\S+/\d+) (pass|skip|fail) \d+$", re.M)


@dataclass(frozen=True)
class Found:
    """The verdict of one test, and the first kernel warning of each kind while it ran."""

    verdict: str
    warnings: Mapping[str, str]

    def __str__(self) -> str:
        first = next(iter(self.warnings.values()), "")
        return f"{self.verdict} ({first})" if first else self.verdict


def in_mode(mode: str, checkout: Path) -> list[str]:
    """The tests that run in a mode, in their order. Raises UserError if the checkout has none.

    Of blktests those that use a device of the user, and once those that make mappings of dm-crypt.
    """
    suite, _, name = mode.partition("/")
    groups = {"xfstests": ("generic",), "zoned": ("block", "zbd"), "default": ("block", "dm", "zbd")}
    paths = [
        path
        for group in groups.get(suite, groups.get(name, ("block", "dm")))
        for path in sorted((checkout / "tests" / group).glob("[0-9][0-9][0-9]"))
    ]
    texts = {f"{path.parent.name}/{path.name}": path.read_text(errors="replace") for path in paths}
    if not texts:
        raise UserError(f"{suite.upper()}={checkout} is no checkout of {suite}")
    if suite == "xfstests":
        return [test for test in (f"generic/{number}" for number in GENERIC.split()) if test in texts]
    on_device = {test for test, text in texts.items() if re.search(r"^test_device\(\)", text, re.M)}
    if name == "zoned":
        wanted = {test for test in on_device if re.search("^CAN_BE_ZONED=1", texts[test], re.M)}
    else:
        wanted = {test for test in on_device if not test.startswith("zbd/")}
        wanted |= {test for test, text in texts.items() if "_have_driver dm-crypt" in text}
    return sorted(wanted - EXCLUDED)


def flavour_of(suite: str, target: Target) -> str:
    """The flavour of the kernel for a suite. Raises UserError if the target has none for xfstests."""
    if suite == "blktests":
        return target.tested
    if XFSTESTS not in target.fragments:
        raise UserError(f"XFSTESTS= needs a target of Linux 7.3, not {target.name}")
    return XFSTESTS


def wanted_tests(checkouts: Mapping[str, Path], only: Sequence[str]) -> dict[str, list[str]]:
    """The tests that run in each mode of the suites of these checkouts; `only` names tests or modes.

    Raises UserError when no test is left.
    """
    found = {
        mode: [test for test in in_mode(mode, checkout) if not only or {test, mode} & {*only}]
        for mode in MODES
        if (checkout := checkouts.get(mode.partition("/")[0]))
    }
    if not any(found.values()):
        raise UserError(f"TEST={' '.join(only)} names no test of these checkouts, and none of: {', '.join(MODES)}")
    return {mode: tests for mode, tests in found.items() if tests}


def compare(suite: Suite, checkout: Path, mode: str, tests: Sequence[str]) -> Outcome:
    """Run the tests of one mode with both drivers."""
    found, start = {}, time.monotonic()
    for variant in ("base", "series"):
        guests = replace(
            suite.guests,
            out=suite.guests.out / f"{mode.replace('/', '-')}-{variant}",
            on_line=printer(f"{mode} {variant}"),
            env={"CHECKOUT": str(checkout), **MODES[mode]},
        )
        found[variant] = run_tests(guests, suite.machine.modules[variant], tests)
    return replace(compared(mode, found["base"], found["series"]), seconds=time.monotonic() - start)


def compared(mode: str, base: Mapping[str, Found], series: Mapping[str, Found]) -> Outcome:
    """The outcome of one mode, with a line for each test that fails or differs.

    A test fails if its verdict is worse with the queue, or if the kernel prints a kind of warning only then. It counts
    as skipped if it fails with both.
    """
    lines, failed = [], 0
    for test, new in series.items():
        old = base[test]
        worse = VERDICTS.index(new.verdict) > VERDICTS.index(old.verdict) or new.warnings.keys() - old.warnings.keys()
        failed += bool(worse)
        if FAIL in (new.verdict, old.verdict) or new.verdict != old.verdict:
            lines.append(f"{'not ok ' if worse else ''}{test}: {old} with the base, {new} with the queue")
    passed = sum(new.verdict == PASS for new in series.values())
    return Outcome(mode, Counts(passed, failed, len(series) - passed - failed), 0.0, "\n".join(lines))


def run_tests(guests: Guests, module: Module, tests: Sequence[str]) -> dict[str, Found]:
    """Run tests in guests. One that fails, or makes the kernel warn, ends its guest; the others run in a new one.

    Raises UserError when a guest starts no test.
    """
    found: dict[str, Found] = {}
    while left := [test for test in tests if test not in found]:
        guest = run_guest(
            guests.kernel,
            "outside.sh",
            name=guests.out.name,
            out=guests.out / left[0].replace("/", "-"),
            accel=guests.accel,
            timeout=BOOT_SECONDS + LIMIT * len(left),
            inputs=module.inputs,
            env={"TESTS": " ".join(left), "LIMIT": str(LIMIT), **guests.env},
            cpus=1,
            memory=MEMORY,
            kernel_args=("kmemleak=off",),
            expected=(IO_ERROR,),
            on_line=guests.on_line,
        )
        fresh = read(guest.output.read_text(errors="replace"), guest.console.read_text(errors="replace"))
        if not fresh:
            guest.require_success()
            raise UserError(f"guest {guest.name} started no test\n  output: {guest.output}")
        found |= fresh
    return found


def read(output: str, console: str) -> dict[str, Found]:
    """The results of the tests that one guest started, from what outside.sh and the kernel printed.

    A test without a result has failed, unless the guest was killed for a warning of an earlier one.
    """
    verdicts = dict(LINE.findall(output))
    found: dict[str, Found] = {}
    for part in console.replace("\r", "").split(MARK)[1:]:
        test = part.partition("\n")[0]
        warnings: dict[str, str] = {}
        for warning in find_warnings(part, (IO_ERROR,)):
            warnings.setdefault(warning.kind, warning.first)
        if test in verdicts or warnings or not any(earlier.warnings for earlier in found.values()):
            found[test] = Found(FAIL if warnings else verdicts.get(test, FAIL), warnings)
    return found
