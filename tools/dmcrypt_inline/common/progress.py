"""Progress: which steps run, for how long, and where their logs are."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CLEAR = "\r\033[K"  # go to the start of the terminal's line and erase it


@dataclass(eq=False)
class _Step:
    title: str
    log: str
    begin: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)

    def __str__(self) -> str:
        return f"{clock(time.monotonic() - self.begin)} {self.title}"

    def tick(self) -> None:
        while not self.done.wait(1.0):
            with _lock:
                _draw()


_lock = threading.RLock()  # of the terminal's last line and of _steps
_steps: list[_Step] = []  # those that run; parallel steps share the last line


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
    running = _Step(title, f"  (log: {log})" if log else "")
    if sys.stdout.isatty():
        threading.Thread(target=running.tick, daemon=True).start()
    else:
        say(f"... {title}{running.log}")
    with _lock:
        _steps.append(running)
        _draw()
    result = "FAILED"
    try:
        yield
        result = "done"
    finally:
        running.done.set()
        with _lock:
            _steps.remove(running)
            say(f"{result} {title} [{clock(time.monotonic() - running.begin)}]")


def _draw() -> None:
    """Write the steps that run into the last line of the terminal; the caller holds _lock."""
    if sys.stdout.isatty():
        line = f"... {'; '.join(map(str, _steps))}{_steps[-1].log}" if _steps else ""
        print(f"{CLEAR}{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
