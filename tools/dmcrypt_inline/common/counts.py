"""How tests and checks ended, as numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """How many claims passed, failed and were skipped."""

    passed: int
    failed: int
    skipped: int
