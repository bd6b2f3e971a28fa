"""The sub-commands that show what was measured: they only read results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..common.host import enter_python_env
from ..report import compare as compare_stage
from ..report import figures as figures_stage
from ..report import pages
from .request import Request


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


def compare(request: Request, files: Sequence[Path], metric: str) -> int:
    """Print what changed between two results files."""
    return compare_stage.compare(files[0], files[1], metric)
