"""The entries of the cache: how large they are, when a run used them last, and how to remove old ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .paths import CACHE_KINDS, cache_dir, lock_of, prune_lock

DAY = 86400.0  # seconds


@dataclass(frozen=True)
class Entry:
    """One directory of the cache: `size` on the disk in bytes, `unused` in seconds."""

    kind: str
    path: Path
    size: int
    unused: float


def entries() -> list[Entry]:
    """All entries, by kind, the longest unused first. Files that the tools did not make are left out."""
    found = []
    for kind in CACHE_KINDS:
        paths = sorted((cache_dir() / kind).glob("[!.]*/"), key=_unused, reverse=True)
        found += [Entry(kind, path, _size(path), _unused(path)) for path in paths]
    return found


def prune(days: int) -> Iterator[Entry]:
    """Remove the entries that no run has used for `days` days, except those that a run is making; yield the removed."""
    for each in entries():
        # No run can begin to use an entry while prune_lock is held. One may have started since entries() returned.
        with prune_lock(fcntl.LOCK_EX):
            if _unused(each.path) < days * DAY:
                continue
            with lock_of(each.path).open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                removed = each.path.with_name(f".{each.path.name}.part-pruned")  # publish() removes it after a kill
                each.path.rename(removed)
                shutil.rmtree(removed)
        yield each


def _unused(path: Path) -> float:
    """Seconds since a run used the entry."""
    used = lock_of(path) if lock_of(path).exists() else path
    return max(0.0, time.time() - used.stat().st_mtime)


def _size(directory: Path) -> int:
    """Disk usage of all files below the directory, in bytes."""
    files = (Path(above, name) for above, _, names in os.walk(directory) for name in names)
    return sum(file.lstat().st_blocks * 512 for file in files)
