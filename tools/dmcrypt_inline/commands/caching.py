"""The stage `cache`: list or remove what runs keep for later ones."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from ..common.paths import CACHE_KINDS, GIB, cache_dir, lock_of, prune_lock
from ..common.progress import say
from .request import Request

DAY = 86400.0  # seconds


@dataclass(frozen=True)
class Entry:
    """One directory of the cache: `size` on the disk in bytes, `unused` in seconds."""

    kind: str
    path: Path
    size: int
    unused: float


def cache(request: Request, prune: int | None) -> int:
    """List the cache, or remove what no run has used for `prune` days."""
    if prune is None:
        say(f"{cache_dir()}:")
        for kind, group in groupby(entries(), key=lambda each: each.kind):
            say(f"{_described(list(group))}  {kind}: {CACHE_KINDS[kind]}")
    else:
        say(f"removed: {_described(list(remove_unused(prune)))}")
        say(f"kept:    {_described(entries())}")
    return 0


def entries() -> list[Entry]:
    """All entries by kind. Files that the tools did not make are left out."""
    return [
        Entry(kind, path, _size(path), _unused(path))
        for kind in CACHE_KINDS
        for path in sorted((cache_dir() / kind).glob("[!.]*/"))
    ]


def remove_unused(days: int) -> Iterator[Entry]:
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
                renamed = each.path.with_name(f".{each.path.name}.part-pruned")  # publish() removes it after a kill
                each.path.rename(renamed)
                shutil.rmtree(renamed)
        yield each


def _unused(path: Path) -> float:
    """Seconds since a run used the entry."""
    used = lock_of(path) if lock_of(path).exists() else path
    return max(0.0, time.time() - used.stat().st_mtime)


def _size(directory: Path) -> int:
    """Disk usage of all files below the directory, in bytes."""
    files = (Path(above, name) for above, _, names in os.walk(directory) for name in names)
    return sum(file.lstat().st_blocks * 512 for file in files)


def _described(some: Sequence[Entry]) -> str:
    days = sorted(each.unused // DAY for each in some)
    used = f", unused for {days[0]:.0f} to {days[-1]:.0f} days" if days else ""
    return f"{sum(each.size for each in some) / GIB:6.2f} GiB, {len(some)} entries{used}"
