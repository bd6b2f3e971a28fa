"""Run a test file in a guest, and read its KTAP, exit status and kernel log."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.paths import REPO
from ..guests.guest import GRACE, run_guest, tail
from ..guests.kernel_log import STALLS, KernelWarning, find_warnings
from ..kernels.build import USER_MODE, Kernel, Module
from ..kernels.build_programs import Programs
from . import ktap
from .files import cpus, groups, kernel_arguments, provoked
from .results import Outcome

ADVISE = REPO / "advise" / "dmcrypt_advise"
ADVICE_SECONDS = 2400.0  # only a guest that hangs takes so long
MARK = "guest test: "  # tests.sh writes it to the kernel log before the test

# Some defects show only when the crypto queue is full, as one this short always is; other tests do not mind.
# kmemleak follows every allocation, which makes each test slow; the tests that look for leaks turn it on.
KERNEL_ARGS = ("cryptd.cryptd_max_cpu_qlen=4", "kmemleak=off")


@dataclass(frozen=True)
class TestResult:
    """The result of one test file: its KTAP, its exit status (None: it did not end), the kernel's warnings.

    `must_run`: guests have all that the test needs, so a skip is a failure.
    """

    name: str
    report: ktap.Report
    status: int | None
    warnings: tuple[KernelWarning, ...]
    must_run: bool = False
    seconds: float = 0.0

    @property
    def counts(self) -> Counts:
        """Cases that passed, failed and were skipped; each fault counts as one more failure."""
        cases = self.report.cases
        failed = sum(not case.ok for case in cases)
        skipped = sum(case.ok and bool(case.skip) for case in cases)
        return Counts(len(cases) - failed - skipped, failed + len(self.faults), skipped + bool(self.report.skip))

    @property
    def faults(self) -> tuple[str, ...]:
        """Failures other than those of cases."""
        faults = [*self.report.problems]
        if self.warnings:
            faults.append(f"kernel warning: {self.warnings[0].first}")
        if self.status is None:
            faults.append("the guest ended before the test did")
        elif self.status != self.report.exit_status:
            faults.append(f"exit status {self.status} instead of {self.report.exit_status}")
        skips = [self.report.skip, *(case.skip for case in self.report.cases)]
        if self.must_run and any(skips):
            faults.append(f"skipped, although guests have all it needs: {next(filter(None, skips))}")
        return tuple(faults)

    @property
    def found_defect(self) -> bool:
        """A case failed, or the kernel printed a warning. Stalls do not count, because a busy host causes them."""
        found = any(warning.kind not in STALLS for warning in self.warnings)
        return found or not all(case.ok for case in self.report.cases)

    @property
    def outcome(self) -> Outcome:
        """The result in short, with the failed cases, the other faults, and the first kernel warning."""
        failed = [f"not ok {case.name}" for case in self.report.cases if not case.ok]
        lines = [*failed, *self.faults, *(warning.excerpt for warning in self.warnings[:1])]
        return Outcome(self.name, self.counts, self.seconds, "\n".join(lines))


@dataclass(frozen=True)
class Guests:
    """A guest for each test: its kernel, accelerator and output directory; `on_line` receives each printed line.

    Tests find `cryptsetup`, if any, in $CRYPTSETUP_PREFIX, and its own tests in $CRYPTSETUP_TESTS.
    `quick`: the short form of each test. `env`: more variables for the tests. `grace`: see run_guest. `fixed_cpus`: of
    all guests, in place of what `cpus` says.
    """

    kernel: Kernel
    cryptsetup: Programs | None
    accel: str
    out: Path
    quick: bool
    on_line: Callable[[str], None] | None = None
    grace: float = GRACE
    env: Mapping[str, str] = field(default_factory=dict)
    kernel_args: Sequence[str] = KERNEL_ARGS
    memory: str = "2G"  # debug options walk through all of it
    fixed_cpus: int = 0

    def cpus(self, test: str) -> int:
        """The number of CPUs of the test's guest.

        User-Mode Linux has one, KVM two. Under TCG two CPUs wait for each other, so a guest has two only where the
        test asks for them, and in the long form.
        """
        if self.kernel.arch == USER_MODE:
            return 1
        if self.fixed_cpus or self.accel != "tcg":
            return self.fixed_cpus or 2
        return cpus(test) or (1 if self.quick else 2)

    def run(self, module: Module, test: str, timeout: float) -> TestResult:
        """Run a test against a module; the guest has `timeout` seconds, the test half of them.

        Raises UserError when the guest does not reach the test, and when its kernel writes nothing to the console.
        """
        guest = run_guest(
            self.kernel,
            "tests.sh",
            name=self.out.name,
            out=self.out,
            accel=self.accel,
            timeout=timeout,
            inputs={**groups(), **module.inputs},
            env={
                "TEST": test,
                "LIMIT": f"{timeout / 2:.0f}",
                "CRYPTSETUP_PREFIX": str(self.cryptsetup.prefix) if self.cryptsetup else "",
                "CRYPTSETUP_TESTS": str(self.cryptsetup.source / "tests") if self.cryptsetup else "",
                "DM_CRYPT_QUICK": "1" if self.quick else "",
                **self.env,
            },
            cpus=self.cpus(test),
            memory=self.memory,
            kernel_args=replaced(self.kernel_args, kernel_arguments(test)),
            expected=provoked(test),
            grace=self.grace,
            on_line=self.on_line,
        )
        output, status, seconds = (guest.results / name for name in ("output.ktap", "status", "seconds"))
        boot, mark, _ = guest.console.read_text(errors="replace").partition(f"{MARK}{test}")
        if not output.exists() or find_warnings(boot, provoked(test)):
            guest.require_success()
        if not mark:
            raise UserError(
                f"the kernel of guest {guest.name} wrote nothing to its console when {test} started, "
                f"so its warnings cannot be seen\n  console: {guest.console}"
            )
        if guest.status is None and self.on_line:
            for line in (f"{guest.why}; console: {guest.console}", *indent(tail(guest.console), "    ").splitlines()):
                self.on_line(line)
        return TestResult(
            name=test,
            report=ktap.parse(output.read_text(errors="replace")),
            status=int(status.read_text()) if status.exists() else None,
            warnings=guest.warnings,
            seconds=float(seconds.read_text()) if seconds.exists() else guest.seconds,
        )


def replaced(usual: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The usual kernel arguments, with the wanted ones added or in place of those of the same name."""
    return tuple({argument.partition("=")[0]: argument for argument in (*usual, *wanted)}.values())


def run_advice(guests: Guests, module: Module) -> TestResult:
    """Run tools/guest/advise.py. Raises UserError if the guest cannot be started or writes no result."""
    guest = run_guest(
        guests.kernel,
        "advise.sh",
        name="advise",
        out=guests.out,
        accel=guests.accel,
        timeout=ADVICE_SECONDS,
        inputs={"advise/dmcrypt_advise": ADVISE, **module.inputs},
        env={"PYTHON": os.path.realpath(sys.executable)},  # outside of any virtual environment
        cpus=1,
        memory=guests.memory,
        kernel_args=("kmemleak=off",),
        on_line=guests.on_line,
    )
    result = guest.results / "advise.ktap"
    if not result.exists():
        guest.require_success()
    report = ktap.parse(result.read_text())
    return TestResult("advise", report, guest.status, guest.warnings, must_run=True)
