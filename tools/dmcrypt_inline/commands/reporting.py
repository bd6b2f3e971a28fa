"""The stages that show results. They only read."""

from __future__ import annotations

from pathlib import Path

from ..common.host import enter_python_env
from ..common.progress import say
from ..report import pages
from .request import Request


def report(request: Request, results: Path | None) -> int:
    """Write the page of the results named, or of the target's last benchmark."""
    results = results or pages.newest(request.kernel_target().name)
    enter_python_env()
    return pages.write_report(results)


def figures(request: Request, results: Path | None) -> int:
    """Print the tables of the results named, or of the target's last benchmark."""
    say(pages.text(results or pages.newest(request.kernel_target().name)))
    return 0
