"""How tests and checks ended, as numbers, and the parts of make check and make test whose numbers they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .errors import UserError
from .paths import cache_dir
from .progress import clock, say


@dataclass(frozen=True)
class Counts:
    """How many claims passed, failed and were skipped."""

    passed: int
    failed: int
    skipped: int


def total(counts: Sequence[Counts]) -> Counts:
    """The sum of several counts."""
    return Counts(
        sum(each.passed for each in counts), sum(each.failed for each in counts), sum(each.skipped for each in counts)
    )


def run_parts(parts: Mapping[str, Callable[[], Counts]]) -> Counts:
    """The sum of what the parts count, by name; one that cannot run counts as a failure, and stops no other."""
    counted = []
    cache = "with what the cache had" if (cache_dir() / "kernels").exists() else "with an empty cache"
    took = {}
    for name, part in parts.items():
        begin = time.monotonic()
        try:
            counted.append(part())
        except UserError as error:  # the other parts still say what they find
            say(f"not ok {name}_can_run\n{error}")
            counted.append(Counts(0, 1, 0))
        took[name] = time.monotonic() - begin
    say(f"time taken, {cache}: " + ", ".join(f"{name} {clock(seconds)}" for name, seconds in took.items()))
    return total(counted)
