"""How many programs run at once: JOBS= or the CPUs that this process may use."""

import os

_limits: list[int] = []  # the last one counts


def limit_jobs(count: int | None) -> None:
    """Let `jobs` return `count`; None: the number of CPUs."""
    _limits[:] = [count] if count else []


def jobs() -> int:
    """How many compilers or tests to run at once."""
    return _limits[-1] if _limits else len(os.sched_getaffinity(0))
