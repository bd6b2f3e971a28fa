"""Say what runs, for how long, and where its log is."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def say(line: str) -> None:
    """Print one line at once, also into a pipe."""
    print(line, flush=True)


def clock(seconds: float) -> str:
    """Minutes and seconds: 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def step(title: str, log: Path | None = None) -> Iterator[None]:
    """Frame one long piece of work.

    On a terminal one line counts the elapsed minutes and seconds; elsewhere one
    line marks the start and one the end. The log's place is shown from the start.
    """
    where = f"  (log: {log})" if log else ""
    begin = time.monotonic()
    live = sys.stdout.isatty()
    done = threading.Event()

    def tick() -> None:
        while not done.wait(1.0):
            print(f"\r\033[K... {clock(time.monotonic() - begin)} {title}{where}", end="", flush=True)

    ticker = threading.Thread(target=tick, daemon=True)
    if live:
        print(f"... 0:00 {title}{where}", end="", flush=True)
        ticker.start()
    else:
        say(f"... {title}{where}")
    word = "FAILED"
    try:
        yield
        word = "done"
    finally:
        done.set()
        if live:
            ticker.join()
            print("\r\033[K", end="")
        say(f"{word} {title} [{clock(time.monotonic() - begin)}]")
