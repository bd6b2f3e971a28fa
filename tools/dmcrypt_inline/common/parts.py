"""The parts of make check and make test, one after the other, and the time that each took."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from .counts import Counts
from .errors import UserError
from .paths import cache_dir
from .progress import clock, say


def run_parts(parts: Mapping[str, Callable[[], Counts]]) -> Counts:
    """The sum of what the parts count, by name; one that cannot run counts as a failure, and stops no other."""
    passed = failed = skipped = 0
    cache = "with what the cache had" if (cache_dir() / "kernels").exists() else "with an empty cache"
    took = {}
    for name, part in parts.items():
        begin = time.monotonic()
        try:
            counts = part()
        except UserError as error:  # the other parts still say what they find
            say(f"not ok {name}_can_run\n{error}")
            counts = Counts(0, 1, 0)
        passed, failed, skipped = passed + counts.passed, failed + counts.failed, skipped + counts.skipped
        took[name] = time.monotonic() - begin
    say(f"time taken, {cache}: " + ", ".join(f"{name} {clock(seconds)}" for name, seconds in took.items()))
    return Counts(passed, failed, skipped)
