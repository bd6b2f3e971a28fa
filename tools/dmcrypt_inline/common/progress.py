"""Progress: which steps run, for how long, and where their logs are."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLEAR = "\r\033[K"  # go to the start of the terminal's line and erase it

_lock = threading.RLock()  # of the terminal's last line and of _steps
_steps: list[tuple[float, str, str]] = []  # those that run: begin, title, log; parallel steps share the last line


def _tick() -> None:
    """Draw each second, while a step runs."""
    while True:
        time.sleep(1.0)
        with _lock:
            if _steps:
                _draw()


_ticker = threading.Thread(target=_tick, daemon=True)


def say(line: str) -> None:
    """Print one line at once, also into a pipe."""
    with _lock:
        print(f"{CLEAR if sys.stdout.isatty() else ''}{line}", flush=True)
        _draw()


def clock(seconds: float) -> str:
    """Minutes and seconds: 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def step(title: str, log: Path | None = None) -> Iterator[None]:
    """Show that a long piece of work runs.

    On a terminal the last line counts the elapsed time of all steps that run; elsewhere
    one line marks the start and one the end. The start shows the path of the log.
    """
    begin, where = time.monotonic(), f"  (log: {log})" if log else ""
    if not sys.stdout.isatty():
        say(f"... {title}{where}")
    with _lock:
        if sys.stdout.isatty() and not _ticker.is_alive():
            _ticker.start()
        _steps.append((begin, title, where))
        _draw()
    result = "FAILED"
    try:
        yield
        result = "done"
    finally:
        with _lock:
            _steps.remove((begin, title, where))
            say(f"{result} {title} [{clock(time.monotonic() - begin)}]")


def _draw() -> None:
    """Write the steps that run into the last line of the terminal; the caller holds _lock."""
    if sys.stdout.isatty():
        shown = (f"{clock(time.monotonic() - begin)} {title}" for begin, title, _ in _steps)
        line = f"... {'; '.join(shown)}{_steps[-1][2]}" if _steps else ""
        print(f"{CLEAR}{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
