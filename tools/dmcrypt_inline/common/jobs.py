"""How many programs run at once."""

import os


def jobs() -> int:
    """How many compilers or tests to run at once: one for each CPU that this process may use (see taskset)."""
    return len(os.sched_getaffinity(0))
