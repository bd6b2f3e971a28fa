"""The stage `cache`: list or remove what runs keep for later ones."""

from __future__ import annotations

from itertools import groupby

from ..common.cache import DAY, Entry, entries, prune
from ..common.paths import CACHE_KINDS, GIB, cache_dir
from ..common.progress import say
from .request import Request


def cache(request: Request, prune: int | None) -> int:
    """List the cache, or remove what no run has used for `prune` days."""
    if prune is not None:
        return _prune(prune)
    listed = entries()
    say(f"{cache_dir()} ({_gib(listed)}):")
    for kind, group in groupby(listed, key=lambda each: each.kind):
        some = list(group)
        used = f"used {_ago(some[-1])} to {_ago(some[0])}"
        say(f"{_gib(some)}  {kind}: {CACHE_KINDS[kind]}, {len(some)} entries, {used}")
    return 0


def _prune(days: int) -> int:
    removed = []
    for each in prune(days):
        say(f"removed {each.kind}/{each.path.name}, used {_ago(each)}: {_gib([each])}")
        removed.append(each)
    say(f"{len(removed)} entries removed, {_gib(removed)}; {_gib(entries())} remain")
    return 0


def _gib(some: list[Entry]) -> str:
    return f"{sum(each.size for each in some) / GIB:6.2f} GiB"


def _ago(entry: Entry) -> str:
    return "today" if entry.unused < DAY else f"{entry.unused / DAY:.0f} days ago"
