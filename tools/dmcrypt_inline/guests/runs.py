"""Directories of runs: build/<target>/runs/<stage>-<time>-<pid>-<number>, one for each run.

build/<target>/<stage> is a symbolic link to the newest one. Two runs at the same time never share a directory.
"""

import itertools
import os
import re
import shutil
import time
from pathlib import Path

KEPT = 10  # runs of a stage
IN_USE = 24 * 3600.0  # seconds for which the directory of a run is kept in any case

TIME = "%Y%m%d-%H%M%S"

_numbers = itertools.count(1)


def new_run(place: Path, stage: str) -> Path:
    """Create a directory for one run below `place` (build/<target>), and point the link of the stage to it.

    Remove the stage's old runs, except for the last KEPT.
    """
    runs = _runs_dir(place)
    path = runs / f"{stage}-{time.strftime(TIME)}-{os.getpid()}-{next(_numbers):04d}"
    path.mkdir(mode=0o700)
    link, fresh = place / stage, runs / f".{path.name}"
    fresh.symlink_to(Path("runs") / path.name)
    fresh.rename(link)
    in_use_since = time.strftime(TIME, time.localtime(time.time() - IN_USE))
    for old in kept_runs(place, stage)[KEPT:]:
        if old.name < f"{stage}-{in_use_since}":
            shutil.rmtree(old, ignore_errors=True)  # another run may remove it, too
    return path


def kept_runs(place: Path, stage: str) -> list[Path]:
    """The directories of a stage's runs, the newest first."""
    named = re.compile(rf"{re.escape(stage)}-\d{{8}}-\d{{6}}-")
    return sorted((path for path in _runs_dir(place).iterdir() if named.match(path.name)), reverse=True)


def _runs_dir(place: Path) -> Path:
    path = place / "runs"
    path.mkdir(exist_ok=True)
    return path
