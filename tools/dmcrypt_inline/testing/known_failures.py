"""Failures that a commit of a queue may have, because no commit before it fixed them."""

from collections.abc import Iterable
from dataclasses import replace

from .guest_tests import TestResult
from .ktap import Report

WHY = "fails as on the base"
ANY = ""  # in place of a case: the kernel warned, or the guest ended before it came to all cases


class KnownFailures:
    """A set of (test, case): the failures of the base that no commit since has fixed.

    (test, ANY) stands for the faults of the test, and for the cases that no commit has reached.
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
        unreached = (test, case) not in self._reached
        return (test, case) in self.failures or (unreached and (test, ANY) in self.failures)

    def excuse(self, found: TestResult) -> TestResult:
        """The result with its known failures as skips. Failures that it does not have are fixed from now on."""
        test, old = found.name, found.report
        cases = tuple(
            replace(case, ok=True, skip=WHY) if not case.ok and self.known(test, case.name) else case
            for case in old.cases
        )
        known_faults = bool(found.faults) and (test, ANY) in self.failures
        for case in cases:
            self._reached.add((test, case.name))
            (self.failures.add if case.skip == WHY else self.failures.discard)((test, case.name))
        if known_faults:
            report = Report(old.plan, WHY, cases, ())
            return replace(found, report=report, status=report.exit_status, warnings=())
        self.failures.discard((test, ANY))
        report = replace(old, cases=cases)
        status = report.exit_status if found.status == old.exit_status else found.status
        return replace(found, report=report, status=status)
