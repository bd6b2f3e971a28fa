"""The tools' own tests, as a part of `make test`."""

from __future__ import annotations

import re
from pathlib import Path

from ..common.counts import Counts
from ..common.host import python_env
from ..common.jobs import jobs
from ..common.paths import BUILD, TOOLS
from ..common.progress import say, step
from ..common.run import run


def run_own_tests(*tests: Path) -> Counts:
    """Run the tools' own tests. `make test` has installed all that they need, so a skip is a failure."""
    log = BUILD / "pytest.log"
    pytest = (python_env() / "bin" / "python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", str(jobs()))
    with step("running the tools' own tests", log):
        done = run([*pytest, *tests], log=log, timeout=600, cwd=TOOLS, check=False)
    summary = done.output.strip().rpartition("\n")[2]
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped)", summary)}
    failed = int(done.returncode != 0) + found.get("skipped", 0)
    if failed:
        say(done.transcript)
    counts = Counts(found.get("passed", 0), failed, found.get("skipped", 0))
    say(f"the tools' own tests: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return counts
