"""Counts of test cases and checks."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """The numbers of cases that passed, failed and were skipped."""

    passed: int
    failed: int
    skipped: int


def total(counts: Sequence[Counts]) -> Counts:
    """The sum of several counts."""
    return Counts(
        sum(each.passed for each in counts), sum(each.failed for each in counts), sum(each.skipped for each in counts)
    )
