"""Run test files in guests: what each said, how it ended, what the kernel complained about meanwhile."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.paths import REPO
from ..guests.guest import GRACE, GuestResult, indented, run_guest, tail
from ..guests.kernel_log import STALLS, KernelWarning, find_warnings
from ..kernels.build import USER_MODE, Kernel, Module
from ..kernels.build_cryptsetup import Cryptsetup
from . import ktap

TESTS = REPO / "selftests"  # one directory a group; what is not executable is sourced
MUTANTS = TESTS / "mutants"  # no tests, but drivers that must not pass them; no guest needs them
KSELFTESTS = ("dm-crypt", "functional")  # the groups for the driver alone; the others are for cryptsetup
MARK = "guest test: "  # tests.sh writes it to the kernel log before each test

# A crypto queue this short is always full: what the recipes need, and most other tests may as well have.
# To follow every allocation makes each of them slow: the test that looks at leaks asks for it.
KERNEL_ARGS = ("cryptd.cryptd_max_cpu_qlen=4", "kmemleak=off")
# What the suite for the tree finds, it has to find on a kernel as it comes.
IN_TREE = ("cryptd.cryptd_max_cpu_qlen=1000",)


@dataclass(frozen=True)
class TestResult:
    """One test file in one guest: what it said, its exit status (None: it never ended), the kernel's warnings.

    `cpus`: of the guest. `must_run`: it has all it needs in our guests, so that a skip of the file, or of a case,
    is a failure.
    """

    name: str
    report: ktap.Report
    status: int | None
    warnings: tuple[KernelWarning, ...]
    cpus: int = 0
    must_run: bool = False

    @property
    def counts(self) -> Counts:
        """Claims passed, failed and skipped; one failure more for each way in which the run itself went wrong."""
        cases = self.report.cases
        passed = sum(case.ok and not case.skip for case in cases)
        failed = sum(not case.ok for case in cases) + len(self.faults)
        skipped = sum(case.ok and bool(case.skip) for case in cases) + bool(self.report.skip)
        return Counts(passed, failed, skipped)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong besides the cases that failed."""
        faults = [*self.report.problems]
        if self.warnings:
            faults.append(f"the kernel complained: {self.warnings[0].first}")
        if self.status is None:
            faults.append("the guest ended before the test did")
        elif self.status != self.report.exit_status:
            faults.append(f"exit status {self.status}, where what it said means {self.report.exit_status}")
        skips = [self.report.skip, *(case.skip for case in self.report.cases)]
        if self.must_run and any(skips):
            faults.append(f"it skips what it could have run here: {next(filter(None, skips))}")
        return tuple(faults)

    @property
    def tripped(self) -> bool:
        """Whether the test found something: a case that is not ok, or a warning. A broken setup is no find.

        Nor are stalls, which a busy host makes.
        """
        found = any(warning.kind not in STALLS for warning in self.warnings)
        return found or not all(case.ok for case in self.report.cases)


def names(group: str) -> list[str]:
    """The test files of a group, as 'group/name', in the order in which they run."""
    found = sorted((TESTS / group).glob("*.sh"))
    return [f"{group}/{path.stem}" for path in found if os.access(path, os.X_OK)]


def groups() -> dict[str, Path]:
    """What a guest gets of `TESTS`, by its place there."""
    return {f"tests/{place.name}": place for place in TESTS.iterdir() if place != MUTANTS}


def kselftests() -> list[str]:
    """The test files of selftests/, as `names` has them."""
    return [name for group in KSELFTESTS for name in names(group)]


def is_kselftest(name: str) -> bool:
    """Whether a test file, named as 'group/name', is one of selftests/."""
    return name.partition("/")[0] in KSELFTESTS


def is_in_tree(name: str) -> bool:
    """Whether a test file, named as 'group/name', is one of those that the queues add to the tree."""
    return name.startswith(f"{KSELFTESTS[0]}/")


def provoked(test: str) -> tuple[str, ...]:
    """What a test makes the kernel say on purpose: the patterns after "# Provokes: " at its top."""
    return _said(test, "# Provokes: ")


def kernel_arguments(test: str) -> tuple[str, ...]:
    """What a test wants to be booted with: after "# Kernel arguments: " at its top, in place of the usual ones."""
    return IN_TREE if is_in_tree(test) else _said(test, "# Kernel arguments: ")


def wants_emulation(test: str) -> bool:
    """Whether "# Guest: emulated" is at its top: only the debug kernel shows what it looks for."""
    return "emulated" in _said(test, "# Guest: ")


def chosen(known: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Those of the `known` tests that are wanted, by name or group; all of them for none.

    Raises UserError for a word that is neither.
    """
    for word in wanted:
        if not any(word in (test, *test.split("/")) for test in known):
            there = "\n".join(f"    {test}" for test in known)
            raise UserError(f"there is no test TEST={word}, but:\n{there}")
    return [test for test in known if not wanted or {test, *test.split("/")}.intersection(wanted)]


def replaced(usual: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The usual kernel arguments with the wanted ones, of the same name or new, in their place."""
    by_name = {argument.partition("=")[0]: argument for argument in (*usual, *wanted)}
    return tuple(by_name.values())


def _said(test: str, words: str) -> tuple[str, ...]:
    lines = (TESTS / f"{test}.sh").read_text().splitlines()
    return tuple(line.removeprefix(words) for line in lines if line.startswith(words))


@dataclass(frozen=True)
class Guests:
    """Where test files run: a kernel, its accelerator, the directory of the runs; `on_line` gets what they print.

    They find `cryptsetup`, if any, under $CRYPTSETUP_PREFIX, its own tests in $CRYPTSETUP_TESTS.
    `quick`: the short form of each test. `fail_fast`: a test ends with its first
    failure. `any_driver`: a flag that the driver lacks is left out, and not a reason
    to skip. `env`: what else tests are told. `grace`: see run_guest.
    """

    kernel: Kernel
    cryptsetup: Cryptsetup | None
    accel: str
    out: Path
    quick: bool
    on_line: Callable[[str], None] | None = None
    grace: float = GRACE
    fail_fast: bool = False
    any_driver: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    kernel_args: Sequence[str] = KERNEL_ARGS
    memory: str = "2G"  # debugging aids walk through all of it

    def run(self, module: Module, tests: Sequence[str], timeout: float) -> list[TestResult]:
        """Run the tests against a module; each guest has `timeout` seconds, each test half of them.

        A guest that ends too early costs only the test that did it: the rest run
        in another one, as do those that need another boot. Raises UserError
        when a guest does not get to its first test.
        """
        results: list[TestResult] = []
        left = sorted(tests, key=self.boot)
        first = left[:1]
        while left:
            out = self.out if left[:1] == first else self.out.with_name(f"{self.out.name}-from-{Path(left[0]).name}")
            alike = [test for test in left if self.boot(test) == self.boot(left[0])]
            batch = self._boot(module, alike, out, timeout)
            ended = [result for result in batch if result.status is not None]
            if len(ended) < len(batch):
                cut = batch[len(ended)]
                # Innocent when an earlier test provoked the warning that stopped the guest.
                if cut.warnings or not any(result.warnings for result in ended):
                    ended.append(cut)
            results += ended
            left = left[len(ended) :]
        return results

    def cpus(self, test: str) -> int:
        """How many CPUs the test's guest has: what it says after "# CPUs: " at its top; else one in the short form.

        Two emulated CPUs, as in the long form, take far longer than one: they wait for each
        other. Where nothing is emulated there are two; User-Mode Linux has one.
        """
        if self.kernel.arch == USER_MODE:
            return 1
        if self.accel != "tcg":
            return 2
        said = _said(test, "# CPUs: ")
        return int(said[0]) if said else 1 if self.quick else 2

    def boot(self, test: str) -> tuple[int, tuple[str, ...]]:
        """What the test's guest is booted with: CPUs, and the test's own kernel arguments."""
        return self.cpus(test), kernel_arguments(test)

    def _boot(self, module: Module, tests: Sequence[str], out: Path, timeout: float) -> list[TestResult]:
        guest = run_guest(
            self.kernel,
            "tests.sh",
            name=out.name,
            out=out,
            accel=self.accel,
            timeout=timeout,
            inputs={**groups(), **{f"modules/{path.name}": path for path in (module.path, *module.beside)}},
            env={
                "TESTS": " ".join(tests),
                "LIMIT": f"{timeout / 2:.0f}",
                "CRYPTSETUP_PREFIX": str(self.cryptsetup.prefix) if self.cryptsetup else "",
                "CRYPTSETUP_TESTS": str(self.cryptsetup.tests) if self.cryptsetup else "",
                "DM_CRYPT_QUICK": "1" if self.quick else "",
                "KTAP_FAIL_FAST": "1" if self.fail_fast else "",
                "DM_CRYPT_ANY_DRIVER": "1" if self.any_driver else "",
                **self.env,
            },
            cpus=self.cpus(tests[0]),
            memory=self.memory,
            kernel_args=replaced(self.kernel_args, kernel_arguments(tests[0])),
            expected=[pattern for test in tests for pattern in provoked(test)],
            grace=self.grace,
            on_line=self.on_line,
        )
        if guest.status is None and self.on_line:
            for line in (f"{guest.why}; console: {guest.console}", *indented(tail(guest.console)).splitlines()):
                self.on_line(line)
        console = guest.console.read_text(errors="replace")
        blamed = blame(console, find_warnings(console), tests)
        if "Call Trace" in console and self.on_line:
            self.on_line(f"traces with the lines of dm-crypt.c: {decoder(self.kernel, module)} <{guest.console}")
        if blamed[""] or not (guest.results / f"{tests[0]}.ktap").exists():
            guest.require_success()
        begun = [test for test in tests if (guest.results / f"{test}.ktap").exists()]
        if silent := [test for test in begun if f"{MARK}{test}" not in console]:
            raise UserError(
                f"the kernel of guest {guest.name} wrote nothing to its console when {silent[0]} began: "
                f"what it complains about would go unseen\n  console: {guest.console}"
            )
        return [_read(guest, name, unprovoked(blamed[name], provoked(name)), self.cpus(name)) for name in tests]


def decoder(kernel: Kernel, module: Module) -> str:
    """The command that finds the source lines of a console's traces: of what is built, our modules have them."""
    script = kernel.source / "scripts" / "decode_stacktrace.sh"
    return f"{script} {kernel.objects / 'vmlinux'} {kernel.source} {module.path.parent}"


def blame(
    console: str, warnings: Sequence[KernelWarning], tests: Sequence[str]
) -> dict[str, tuple[KernelWarning, ...]]:
    """Complaints by the test that ran when they came ("" for those before the first)."""
    running = ""
    at_line = [""]
    for line in console.replace("\r", "").splitlines():  # as kernel_log.find_warnings counts them
        name = line.partition(MARK)[2].strip()
        running = name if name in tests else running
        at_line.append(running)
    return {name: tuple(c for c in warnings if at_line[c.line] == name) for name in ("", *tests)}


def unprovoked(warnings: Sequence[KernelWarning], patterns: Sequence[str]) -> tuple[KernelWarning, ...]:
    """The warnings that no pattern matches."""
    return tuple(c for c in warnings if not any(re.search(pattern, c.first) for pattern in patterns))


def _read(guest: GuestResult, name: str, warnings: tuple[KernelWarning, ...], cpus: int) -> TestResult:
    said, status = guest.results / f"{name}.ktap", guest.results / f"{name}.status"
    return TestResult(
        name=name,
        report=ktap.parse(said.read_text(errors="replace") if said.exists() else ""),
        status=int(status.read_text()) if status.exists() else None,
        warnings=warnings,
        cpus=cpus,
    )
