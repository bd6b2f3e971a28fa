"""The sub-commands that show what was measured: they only read results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..bench.inguest.stats import METRICS
from ..common.host import enter_python_env
from ..report import compare as compare_stage
from ..report import figures as figures_stage
from ..report import pages
from .request import Add, Request


def register(add: Add) -> None:
    """Add the sub-commands to the command line."""
    text = "build/<target>/report: what a benchmark measured, as a page with charts and as a summary"
    stage = add("report", text, report, own="")
    text = "a results file of make bench (default: the target's last)"
    stage.add_argument("--results", type=Path, metavar="FILE", help=text)
    text = "write the tables and the chart of README and cover letters from the results kept for them"
    stage = add("figures", text, figures, own="")
    text = "keep the W1 of this results file for the figures first (default: what is kept)"
    stage.add_argument("--results", type=Path, metavar="FILE", help=text)
    stage.add_argument("--check", action="store_true", help="write nothing, say what is stale")
    text = "what changed between two results files, judged by ratios that each took within one boot"
    stage = add("compare", text, compare, target="", own="")
    stage.add_argument("files", nargs=2, metavar="FILE", type=Path, help="A and B, two results files of make bench")
    text = "which figure (default: %(default)s)"
    stage.add_argument("--metric", choices=tuple(METRICS), default="throughput", help=text)


def report(request: Request, results: Path | None) -> int:
    """Write the report of the results named, or of the target's last benchmark."""
    results = results or pages.newest(request.kernel_target().name)
    enter_python_env()
    return pages.write(results)


def figures(request: Request, results: Path | None, check: bool) -> int:
    """Write the figures of README and cover letters, from new results when some are named; or check them."""
    target = request.kernel_target()
    enter_python_env()
    if results:
        figures_stage.keep(results, target)
    return figures_stage.check() if check else figures_stage.write()


def compare(_request: Request, files: Sequence[Path], metric: str) -> int:
    """Print what changed between two results files."""
    return compare_stage.compare(files[0], files[1], metric)
