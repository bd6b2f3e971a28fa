"""The stage `cache`: list or remove what runs keep for later ones."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ..common.paths import CACHE_KINDS, GIB, cache_dir, lock_of, prune_lock
from ..common.progress import say
from .request import Request

DAY = 86400.0  # seconds


def cache(request: Request, prune: int | None) -> None:
    """Remove what no run has used for `prune` days, if that is given, and list the rest of the cache."""
    for path in remove_unused(prune) if prune is not None else ():
        say(f"removed {path}")
    say(f"{cache_dir()}:")
    for kind, group in groupby(entries(), key=lambda path: path.parent.name):
        paths = list(group)
        days = [unused(path) // DAY for path in paths]
        files = (Path(above, name) for path in paths for above, _, names in os.walk(path) for name in names)
        size = sum(file.lstat().st_blocks * 512 for file in files) / GIB
        used = f"unused for {min(days):.0f} to {max(days):.0f} days"
        say(f"{size:6.2f} GiB, {len(paths)} entries, {used}  {kind}: {CACHE_KINDS[kind]}")


def entries() -> list[Path]:
    """The directories of all kinds. Files that the tools did not make are left out."""
    return [path for kind in CACHE_KINDS for path in sorted((cache_dir() / kind).glob("[!.]*/"))]


def remove_unused(days: int) -> Iterator[Path]:
    """Remove the entries that no run has used for `days` days, except those that a run is making; yield the removed."""
    for path in entries():
        # No run can begin to use an entry while prune_lock is held. One may have started since entries() returned.
        with prune_lock(fcntl.LOCK_EX):
            if unused(path) < days * DAY:
                continue
            with lock_of(path).open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                renamed = path.with_name(f".{path.name}.part-pruned")  # publish() removes it after a kill
                path.rename(renamed)
                shutil.rmtree(renamed)
        yield path


def unused(path: Path) -> float:
    """Seconds since a run used the entry."""
    used = lock_of(path) if lock_of(path).exists() else path
    return max(0.0, time.time() - used.stat().st_mtime)
