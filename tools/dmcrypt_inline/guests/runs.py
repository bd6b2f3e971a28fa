"""Directories of runs: build/<target>/runs/<stage>-<time>-<pid>-<number>, one for each run, and the last few are kept.

build/<target>/<stage> is a symbolic link to the newest one. Two runs at the same time never share a directory.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KEPT = 10  # runs of a stage

_locks: list[int] = []  # open descriptors: other processes do not remove a directory that this one has locked


def new_run(place: Path, stage: str) -> Path:
    """Create a directory for one run below `place` (build/<target>), and point the link of the stage to it.

    Remove all but the last KEPT runs of the stage.
    """
    runs = _runs_dir(place)
    name = f"{stage}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    with _locked(runs):
        path = next(path for number in itertools.count(1) if not (path := runs / f"{name}-{number:02d}").exists())
        path.mkdir(mode=0o700)
        _locks.append(os.open(path, os.O_DIRECTORY))
        fcntl.flock(_locks[-1], fcntl.LOCK_EX)
        _link(place / stage, path)
        for old in kept_runs(place, stage)[KEPT:]:
            _remove_unless_locked(old)
    return path


def kept_runs(place: Path, stage: str) -> list[Path]:
    """The directories of a stage's runs, the newest first."""
    named = re.compile(rf"{re.escape(stage)}-\d{{8}}-\d{{6}}-")
    return sorted((path for path in _runs_dir(place).iterdir() if named.match(path.name)), reverse=True)


def _runs_dir(place: Path) -> Path:
    path = place / "runs"
    path.mkdir(exist_ok=True)
    return path


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _link(link: Path, path: Path) -> None:
    """Let `link` name `path` from now on; replaced in one step."""
    fresh = path.with_name(f".{path.name}")
    fresh.symlink_to(Path("runs") / path.name)
    if not link.is_symlink():
        shutil.rmtree(link, ignore_errors=True)  # earlier versions of the tools made a directory
    fresh.rename(link)


def _remove_unless_locked(path: Path) -> None:
    with suppress(BlockingIOError):  # the process that uses it has locked it
        descriptor = os.open(path, os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        finally:
            os.close(descriptor)
