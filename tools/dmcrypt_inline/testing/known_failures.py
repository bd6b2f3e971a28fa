"""Known failures: what a commit of the queue may fail because the commit before it did."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .guest_tests import TestResult
from .ktap import Report

WHY = "fails as on the base"


@dataclass(frozen=True)
class KnownFailures:
    """What one test found wrong with the base, and no commit since has fixed.

    `claims` failed. `faulty`: the run itself went wrong, as it does when the kernel complains or the guest ends
    before the test: then those not `seen` are not known.
    """

    claims: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    faulty: bool = False

    def __bool__(self) -> bool:
        return bool(self.claims or self.faulty)

    def covers(self, claim: str) -> bool:
        """Whether the claim may fail."""
        return claim in self.claims or (self.faulty and claim not in self.seen)


def failures_of(base: TestResult) -> KnownFailures:
    """The known failures of one test, from its result on the base."""
    claims = base.report.claims
    return KnownFailures(
        frozenset(claim.name for claim in claims if not claim.ok),
        frozenset(claim.name for claim in claims),
        bool(base.faults),
    )


def judge(known: KnownFailures, found: TestResult) -> tuple[TestResult, KnownFailures]:
    """A commit's result with its known failures as skips, and those that are left after it."""
    claims = tuple(
        replace(claim, ok=True, skip=WHY) if not claim.ok and known.covers(claim.name) else claim
        for claim in found.report.claims
    )
    still = {claim.name for claim in claims if claim.skip == WHY}
    seen = frozenset(claim.name for claim in claims)
    faulty = known.faulty and bool(found.faults)
    left = KnownFailures(
        frozenset(still) | (known.claims - seen),  # what a guest did not come to is not fixed
        known.seen | seen,
        faulty,
    )
    if faulty:
        report = Report(found.report.plan, WHY, claims, ())
        return replace(found, report=report, status=report.exit_status, complaints=()), left
    report = replace(found.report, claims=claims)
    consistent = found.status == found.report.exit_status
    return replace(found, report=report, status=report.exit_status if consistent else found.status), left
