"""Known failures: what a commit of the queue may fail because the commit before it did."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .guest_tests import TestResult
from .ktap import Report

WHY = "fails as on the base"


@dataclass(frozen=True)
class KnownFailures:
    """What one test found wrong with the base, and no commit since has fixed.

    `cases` failed. `faulty`: the run itself went wrong, as it does when the kernel complains or the guest ends
    before the test: then those not `seen` are not known.
    """

    cases: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    faulty: bool = False

    def __bool__(self) -> bool:
        return bool(self.cases or self.faulty)

    def covers(self, case: str) -> bool:
        """Whether the case may fail."""
        return case in self.cases or (self.faulty and case not in self.seen)


def failures_of(base: TestResult) -> KnownFailures:
    """The known failures of one test, from its result on the base."""
    cases = base.report.cases
    return KnownFailures(
        frozenset(case.name for case in cases if not case.ok),
        frozenset(case.name for case in cases),
        bool(base.faults),
    )


def judge(known: KnownFailures, found: TestResult) -> tuple[TestResult, KnownFailures]:
    """A commit's result with its known failures as skips, and those that are left after it."""
    cases = tuple(
        replace(case, ok=True, skip=WHY) if not case.ok and known.covers(case.name) else case
        for case in found.report.cases
    )
    still = {case.name for case in cases if case.skip == WHY}
    seen = frozenset(case.name for case in cases)
    faulty = known.faulty and bool(found.faults)
    left = KnownFailures(
        frozenset(still) | (known.cases - seen),  # what a guest did not come to is not fixed
        known.seen | seen,
        faulty,
    )
    if faulty:
        report = Report(found.report.plan, WHY, cases, ())
        return replace(found, report=report, status=report.exit_status, warnings=()), left
    report = replace(found.report, cases=cases)
    consistent = found.status == found.report.exit_status
    return replace(found, report=report, status=report.exit_status if consistent else found.status), left
