"""The tools' own tests, as a part of `make test`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from ..common.counts import Counts
from ..common.host import python_env
from ..common.jobs import jobs
from ..common.paths import BUILD, TOOLS
from ..common.progress import say, step
from ..common.run import run


def run_own_tests(*tests: Path) -> Counts:
    """The tools' own tests. `make test` has installed all that they need: a skip is a failure."""
    log, report = BUILD / "pytest.log", BUILD / "pytest.xml"
    report.unlink(missing_ok=True)
    words = ["-q", "-rs", "-p", "no:cacheprovider", "-n", str(jobs()), f"--junit-xml={report}"]
    with step("running the tools' own tests", log):
        done = run(
            [python_env() / "bin" / "python", "-m", "pytest", *words, *tests],
            log=log,
            timeout=600,
            cwd=TOOLS,
            check=False,
        )
    said = ElementTree.parse(report).getroot()[0].attrib if report.is_file() else {}
    ran, skipped = int(said.get("tests", 0)), int(said.get("skipped", 0))
    failed = int(said.get("failures", 0)) + int(said.get("errors", 0))
    passed = ran - failed - skipped
    if done.returncode != 0 or failed or skipped:
        say(done.transcript)
    if done.returncode != 0 and not failed:  # it could not even collect
        failed = 1
    if skipped:
        say("not ok the_tools_tests_skip_nothing")
        failed += 1
    say(f"the tools' own tests: {passed} passed, {failed} failed, {skipped} skipped")
    return Counts(passed, failed, skipped)
