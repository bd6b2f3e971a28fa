"""The tools' own tests, as a part of `make test`."""

from pathlib import Path

from ..common.errors import UserError
from ..common.host import python_env
from ..common.jobs import jobs
from ..common.paths import BUILD, TOOLS
from ..common.progress import say, step
from ..common.run import run


def run_own_tests(*tests: Path) -> None:
    """Run the tools' own tests. Raises UserError when one fails or skips: `make test` has installed all they need."""
    log = BUILD / "pytest.log"
    pytest = (python_env() / "bin" / "python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", str(jobs()))
    with step("running the tools' own tests", log):
        done = run([*pytest, *tests], log=log, timeout=600, cwd=TOOLS, check=False)
    summary = done.output.strip().rpartition("\n")[2]
    if done.returncode != 0 or " skipped" in summary:
        raise UserError(done.transcript)
    say(f"the tools' own tests: {summary}")
