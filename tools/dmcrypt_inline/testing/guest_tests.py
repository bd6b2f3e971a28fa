"""Run test files in guests, and read their KTAP, exit statuses and kernel logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..common.counts import Counts
from ..common.errors import UserError
from ..guests.guest import GRACE, GuestResult, indented, run_guest, tail
from ..guests.kernel_log import STALLS, KernelWarning, find_warnings
from ..kernels.build import USER_MODE, Kernel, Module
from ..kernels.build_programs import Programs
from . import ktap
from .files import cpus, groups, kernel_arguments, provoked
from .results import Outcome

MARK = "guest test: "  # tests.sh writes it to the kernel log before each test

# Some defects show only when the crypto queue is full, as one this short always is; other tests do not mind.
# kmemleak follows every allocation, which makes each test slow; the tests that look for leaks turn it on.
KERNEL_ARGS = ("cryptd.cryptd_max_cpu_qlen=4", "kmemleak=off")


@dataclass(frozen=True)
class TestResult:
    """The result of one test file: its KTAP, its exit status (None: it did not end), the kernel's warnings.

    `cpus`: of the guest. `must_run`: guests have all that the test needs, so a skip is a failure.
    """

    name: str
    report: ktap.Report
    status: int | None
    warnings: tuple[KernelWarning, ...]
    cpus: int = 0
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
        lines = []
        for case in self.report.cases:
            if not case.ok:
                lines += [*(f"# {line}" for line in case.diagnostics), f"not ok {case.name}"]
        lines += [*self.faults, *(warning.excerpt for warning in self.warnings[:1])]
        return Outcome(self.name, self.counts, self.seconds, "\n".join(lines))


@dataclass(frozen=True)
class Guests:
    """Guests for test files: their kernel, accelerator and output directory; `on_line` receives each printed line.

    Tests find `cryptsetup`, if any, in $CRYPTSETUP_PREFIX, and its own tests in $CRYPTSETUP_TESTS.
    `quick`: the short form of each test. `fail_fast`: a test ends with its first failure. `any_driver`: tests do
    without the flags that the driver lacks, instead of skipping. `env`: more variables for the tests. `grace`: see
    run_guest.
    """

    kernel: Kernel
    cryptsetup: Programs | None
    accel: str
    out: Path
    quick: bool
    on_line: Callable[[str], None] | None = None
    grace: float = GRACE
    fail_fast: bool = False
    any_driver: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    kernel_args: Sequence[str] = KERNEL_ARGS
    memory: str = "2G"  # debug options walk through all of it

    def run(self, module: Module, tests: Sequence[str], timeout: float) -> list[TestResult]:
        """Run the tests against a module; each guest has `timeout` seconds, each test half of them.

        When a guest ends too early, only the test that ran then has failed; the tests after it run in another guest,
        and so do tests that need other boot options. Raises UserError when a guest does not reach its first test.
        """
        results: list[TestResult] = []
        left = sorted(tests, key=self.boot_options)
        first = left[:1]
        while left:
            out = self.out if left[:1] == first else self.out.with_name(f"{self.out.name}-from-{Path(left[0]).name}")
            alike = [test for test in left if self.boot_options(test) == self.boot_options(left[0])]
            batch = self._boot(module, alike, out, timeout)
            ended = [result for result in batch if result.status is not None]
            if len(ended) < len(batch):
                cut = batch[len(ended)]
                # An earlier test may have caused the warning that ended the guest: then this one runs again.
                if cut.warnings or not any(result.warnings for result in ended):
                    ended.append(cut)
            results += ended
            left = left[len(ended) :]
        return results

    def cpus(self, test: str) -> int:
        """The number of CPUs of the test's guest.

        User-Mode Linux has one, KVM two. Under TCG two CPUs wait for each other, so a guest has two only where the
        test asks for them, and in the long form.
        """
        if self.kernel.arch == USER_MODE:
            return 1
        if self.accel != "tcg":
            return 2
        return cpus(test) or (1 if self.quick else 2)

    def boot_options(self, test: str) -> tuple[int, tuple[str, ...]]:
        """The number of CPUs, and the kernel arguments that the test asks for."""
        return self.cpus(test), kernel_arguments(test)

    def _boot(self, module: Module, tests: Sequence[str], out: Path, timeout: float) -> list[TestResult]:
        guest = run_guest(
            self.kernel,
            "tests.sh",
            name=out.name,
            out=out,
            accel=self.accel,
            timeout=timeout,
            inputs={**groups(), **module.inputs},
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
        console = guest.console.read_text(errors="replace")
        if self.on_line and guest.status is None:
            for line in (f"{guest.why}; console: {guest.console}", *indented(tail(guest.console)).splitlines()):
                self.on_line(line)
        if self.on_line and "Call Trace" in console:
            script = self.kernel.source / "scripts" / "decode_stacktrace.sh"
            words = f"{script} {self.kernel.objects / 'vmlinux'} {self.kernel.source} {module.path.parent}"
            self.on_line(f"source lines of the traces: {words} <{guest.console}")
        warnings = warnings_by_test(console, tests)
        if warnings[""] or not (guest.results / f"{tests[0]}.ktap").exists():
            guest.require_success()
        started = [test for test in tests if (guest.results / f"{test}.ktap").exists()]
        if silent := [test for test in started if f"{MARK}{test}" not in console]:
            raise UserError(
                f"the kernel of guest {guest.name} wrote nothing to its console when {silent[0]} started, "
                f"so its warnings cannot be seen\n  console: {guest.console}"
            )
        return [_read(guest, test, unprovoked(warnings[test], provoked(test)), self.cpus(test)) for test in tests]


def warnings_by_test(console: str, tests: Sequence[str]) -> dict[str, tuple[KernelWarning, ...]]:
    """The kernel's warnings by the test that ran then ("" for those before the first test)."""
    running = ""
    at_line = [""]
    for line in console.replace("\r", "").splitlines():  # find_warnings counts the lines in the same way
        name = line.partition(MARK)[2].strip()
        running = name if name in tests else running
        at_line.append(running)
    found = find_warnings(console)
    return {name: tuple(each for each in found if at_line[each.line] == name) for name in ("", *tests)}


def unprovoked(warnings: Sequence[KernelWarning], patterns: Sequence[str]) -> tuple[KernelWarning, ...]:
    """The warnings that no pattern matches."""
    return tuple(each for each in warnings if not any(re.search(pattern, each.first) for pattern in patterns))


def replaced(usual: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The usual kernel arguments, with the wanted ones added or in place of those of the same name."""
    return tuple({argument.partition("=")[0]: argument for argument in (*usual, *wanted)}.values())


def _read(guest: GuestResult, name: str, warnings: tuple[KernelWarning, ...], cpu_count: int) -> TestResult:
    output, status, seconds = (guest.results / f"{name}.{kind}" for kind in ("ktap", "status", "seconds"))
    return TestResult(
        name=name,
        report=ktap.parse(output.read_text(errors="replace") if output.exists() else ""),
        status=int(status.read_text()) if status.exists() else None,
        warnings=warnings,
        cpus=cpu_count,
        seconds=float(seconds.read_text()) if seconds.exists() else guest.seconds,
    )
