"""Failures that a commit of a queue may have, because no commit before it fixed them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .ktap import Report
from .results import TestResult

WHY = "fails as on the base"
ANY = ""  # in place of a case: the kernel warned, or the guest ended before it came to all cases


class KnownFailures:
    """The (test, case) pairs that failed on the base and that no commit since has passed.

    The pair (test, ANY) stands for the faults of the test, and for cases that no commit has reached yet.
    """

    def __init__(self, failures: Iterable[tuple[str, str]] = ()) -> None:
        self.failures = set(failures)
        self._reached: set[tuple[str, str]] = set()

    def add_base(self, base: TestResult) -> None:
        """Record the failures of a test on the base."""
        self._reached |= {(base.name, case.name) for case in base.report.cases}
        self.failures |= {(base.name, case.name) for case in base.report.cases if not case.ok}
        if base.faults:
            self.failures.add((base.name, ANY))

    def known(self, test: str, case: str) -> bool:
        """The case may fail."""
        if (test, case) in self.failures:
            return True
        return (test, ANY) in self.failures and (test, case) not in self._reached

    def excuse(self, found: TestResult) -> TestResult:
        """The result with its known failures as skips. Failures that it does not have are fixed from now on."""
        test = found.name
        cases = tuple(
            replace(case, ok=True, skip=WHY) if not case.ok and self.known(test, case.name) else case
            for case in found.report.cases
        )
        excuse_faults = (test, ANY) in self.failures and bool(found.faults)
        self.failures -= {(test, case.name) for case in cases if case.skip != WHY}
        self.failures |= {(test, case.name) for case in cases if case.skip == WHY}
        self._reached |= {(test, case.name) for case in cases}
        if excuse_faults:
            report = Report(found.report.plan, WHY, cases, ())
            return replace(found, report=report, status=report.exit_status, warnings=())
        self.failures.discard((test, ANY))
        report = replace(found.report, cases=cases)
        consistent = found.status == found.report.exit_status
        return replace(found, report=report, status=report.exit_status if consistent else found.status)
