"""The sub-command about what is kept between runs."""

from __future__ import annotations

from itertools import groupby

from ..common.cache import DAY, WHAT, Entry, entries, prune
from ..common.errors import UserError
from ..common.paths import GIB, cache_dir
from ..common.progress import say
from .request import Add, Request


def register(add: Add) -> None:
    """Add the sub-command to the command line."""
    stage = add(
        "cache", "what is kept between runs, how large it is, and when it was used last", cache, target="", own=""
    )
    stage.add_argument(
        "--prune",
        type=int,
        metavar="DAYS",
        help="remove what no run has used for so many days; what is wanted again is made again",
    )


def cache(_request: Request, prune: int | None) -> int:
    """Show the cache, or remove from it what is old."""
    if prune is not None:
        return _prune(prune)
    say(f"{cache_dir()} ({_gib(entries())}):")
    for kind, group in groupby(entries(), key=lambda each: each.kind):
        some = list(group)
        say(f"{_gib(some)}  {kind}: {WHAT[kind]}")
        if kind == "modules":
            say(f"      {len(some)} of them, used {_ago(some[-1].unused)} to {_ago(some[0].unused)}")
            continue
        for each in some:
            say(f"      {_gib([each])}  used {_ago(each.unused)}  {each.path.name}")
    return 0


def _prune(days: int) -> int:
    if days < 0:
        raise UserError(f"PRUNE={days}: for how many days a run must not have used what is removed")
    removed = []
    for each in prune(days):
        say(f"removed {each.kind}/{each.path.name}, used {_ago(each.unused)}: {_gib([each])}")
        removed.append(each)
    say(f"{len(removed)} removed, {_gib(removed)}; left: {_gib(entries())}")
    return 0


def _gib(some: list[Entry]) -> str:
    return f"{sum(each.size for each in some) / GIB:6.2f} GiB"


def _ago(seconds: float) -> str:
    return "today" if seconds < DAY else f"{seconds / DAY:.0f} days ago"
