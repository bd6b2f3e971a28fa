"""What the cache holds, how large it is and when it was used; and how to make room there."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .paths import cache_dir, lock_of

DAY = 86400.0  # seconds
WHAT = {
    "packages": "as downloaded",
    "bases": "trees before the queue, as git repositories",
    "sources": "what kernels are built from",
    "kernels": "kernels, and what building modules takes",
    "modules": "builds of dm-crypt",
    "python": "Python environments",
    "cryptsetup": "builds of cryptsetup",
}


@dataclass(frozen=True)
class Entry:
    """One directory of the cache: `size` is what it takes on the disk, in bytes, `unused` in seconds."""

    kind: str
    path: Path
    size: int
    unused: float


def entries() -> list[Entry]:
    """All entries, by kind in the order of WHAT, the longest unused first. Files of the user's are none."""
    now = time.time()
    found = []
    for kind in WHAT:
        for path in sorted((cache_dir() / kind).glob("[!.]*/")):
            used = lock_of(path) if lock_of(path).exists() else path
            found.append(Entry(kind, path, _size(path), max(0.0, now - used.stat().st_mtime)))
    return sorted(found, key=lambda each: (list(WHAT).index(each.kind), -each.unused))


def prune(days: int) -> Iterator[Entry]:
    """Remove what nothing has used for so many days, and say what; an entry that is being made is left alone."""
    for each in entries():
        if each.unused < days * DAY:
            continue
        with lock_of(each.path).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            gone = each.path.with_name(f".{each.path.name}.part-pruned")  # publish() clears it up where we are killed
            each.path.rename(gone)
            shutil.rmtree(gone)
        yield each


def _size(directory: Path) -> int:
    """What the files below take on the disk, in bytes."""
    total = 0
    for above, _, files in os.walk(directory):
        for name in files:
            total += os.lstat(Path(above, name)).st_blocks * 512
    return total
