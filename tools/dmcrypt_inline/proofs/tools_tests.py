"""The tools' own tests, as a part of `make test`."""

from __future__ import annotations

import re

from ..common.counts import Counts
from ..common.host import python_env
from ..common.paths import BUILD, TOOLS
from ..common.progress import say, step
from ..common.run import run


def run_own_tests() -> Counts:
    """The tools' own tests. `make test` has installed all that they need: a skip is a failure."""
    log = BUILD / "pytest.log"
    with step("running the tools' own tests", log):
        python = python_env() / "bin" / "python"
        done = run(
            [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", "auto", TOOLS / "tests"],
            log=log,
            timeout=600,
            cwd=TOOLS,
            check=False,
        )
    counts = pytest_counts(done.output)
    if done.returncode != 0 or counts.failed or counts.skipped:
        say(done.output)
    if done.returncode != 0 and not counts.failed:  # it could not even collect
        counts = Counts(counts.passed, 1, counts.skipped)
    if counts.skipped:
        say("not ok the_tools_tests_skip_nothing")
        counts = Counts(counts.passed, counts.failed + 1, counts.skipped)
    say(f"the tools' own tests: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return counts


def pytest_counts(output: str) -> Counts:
    """Passed, failed and skipped from pytest's last line; an error counts as failed."""
    lines = output.strip().splitlines()
    found = re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", lines[-1] if lines else "")
    number = {word.rstrip("s") if word.startswith("error") else word: int(count) for count, word in found}
    return Counts(number.get("passed", 0), number.get("failed", 0) + number.get("error", 0), number.get("skipped", 0))
