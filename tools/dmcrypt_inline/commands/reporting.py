"""What the sub-commands do that show measurements: they only read results."""

from __future__ import annotations

from ..common.host import enter_python_env
from ..report import compare as compare_stage
from ..report import figures as figures_stage
from ..report import pages as report_stage
from .request import Request


def report(request: Request) -> int:
    """Write the report of the results named, or of the target's last benchmark."""
    (results,) = request.files or (report_stage.newest(request.kernel_target().name),)
    enter_python_env()
    return report_stage.write(results)


def figures(request: Request) -> int:
    """Write the figures of README and cover letters, from new results when some are named; or check them."""
    target = request.kernel_target()
    enter_python_env()
    for results in request.files:
        figures_stage.keep(results, target)
    return figures_stage.check() if request.only_check else figures_stage.write()


def compare(request: Request) -> int:
    """Print what changed between two results files."""
    request.target()  # a wrong name is refused here too
    first, second = request.files
    return compare_stage.compare(first, second, request.metric, request.to)
