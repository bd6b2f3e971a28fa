"""The one function that runs other programs."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .errors import UserError

QUOTED_LINES = 20  # how much of a failed program's output a message repeats
# Of gcc, clang and their linkers: FILE:LINE:COLUMN: error: ..., undefined reference; of modpost: ERROR: modpost.
FIRST_ERROR = re.compile(r":\d+: (fatal )?error: |: undefined reference to |^ERROR: modpost: ")
GRACE = 5.0  # seconds between asking a program to end and killing it, where `run` is not told others

_running: dict[subprocess.Popen[bytes], float] = {}  # and the grace of each
_stopping = threading.Event()


@dataclass(frozen=True)
class Completed:
    """One finished program: what it was, how it ended, what it wrote, how long it took (seconds)."""

    argv: tuple[str, ...]
    returncode: int
    output: str
    seconds: float


class CommandError(UserError):
    """A program failed, timed out or does not exist. `completed` tells how (returncode -1: timed out or never ran)."""

    def __init__(self, why: str, completed: Completed, log: Path) -> None:
        self.completed = completed
        super().__init__(f"{why}\n  command: {show(completed.argv)}\n  log: {log}{_quoted(completed.output)}")


def _quoted(output: str) -> str:
    """What a message repeats of a program's output: from a compiler's first error on, else the last lines.

    Other jobs of a parallel make go on writing for a while after the one that failed.
    """
    lines = output.splitlines()
    last = max(0, len(lines) - QUOTED_LINES)
    error = next((number for number, line in enumerate(lines[:last]) if FIRST_ERROR.search(line)), None)
    begin, what = (
        (last, "the last lines it wrote") if error is None else (error, "the first error and what followed it")
    )
    quoted = "\n".join("    " + line for line in lines[begin : begin + QUOTED_LINES])
    return f"\n  {what}:\n{quoted}" if quoted else ""


def show(argv: Sequence[str]) -> str:
    """The command as one line that a person can read (and a shell can parse)."""
    return shlex.join(argv)


def run(
    argv: Sequence[str | Path],
    *,
    log: Path,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
    on_line: Callable[[str], None] | None = None,
    grace: float | None = None,
) -> Completed:
    """Run a program and return what it wrote (stdout and stderr together).

    `log` receives the command line and the output, appended while it runs.
    `timeout` is in seconds; past it the program and all its children are killed.
    `env` is added to the caller's environment; messages are in English.
    `on_line` gets each whole line as it comes, in a thread of its own.
    `grace` is how many seconds a program that is to end early has to clean up (default: GRACE).
    Raises CommandError when the program is missing or too slow, and, unless
    `check` is False, when its exit status is not 0.
    """
    _go_on()
    args = tuple(str(a) for a in argv)
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    kept = bytearray()  # what this program wrote; others may be writing to the same log
    timed_out = False
    with log.open("ab", buffering=0) as sink, tempfile.TemporaryFile() as given:
        sink.write(f"$ {show(args)}\n".encode())
        given.write(stdin or b"")
        given.seek(0)
        try:
            process = subprocess.Popen(
                args,
                cwd=cwd,
                env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                close_fds=False,  # the lock of a cache entry goes with whoever writes to it (see paths.locked)
                start_new_session=True,  # a process group of its own, to be killed as a whole
            )
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            never = Completed(args, -1, "", 0.0)
            raise CommandError(f"could not start {args[0]}: {error}", never, log) from error
        grace = GRACE if grace is None else grace
        _running[process] = grace
        reader = threading.Thread(target=_keep, args=(process, kept, sink, on_line), daemon=True)
        reader.start()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _kill_group(process, grace)
        except BaseException:  # Ctrl-C too: leave no child behind, then go on falling
            _kill_group(process, grace)
            raise
        finally:
            _running.pop(process, None)
            reader.join(GRACE)  # what the program left running in the background may hold its output open
    _go_on()
    seconds = time.monotonic() - start
    output = bytes(kept).decode(errors="replace")
    if timed_out:
        slow = Completed(args, -1, output, seconds)
        raise CommandError(f"{args[0]} did not end within {timeout:.0f} s and was killed", slow, log)
    completed = Completed(args, process.returncode, output, seconds)
    if check and process.returncode != 0:
        raise CommandError(f"{args[0]} ended with exit status {process.returncode}", completed, log)
    return completed


def stop_all() -> None:
    """End every program that runs, in whatever thread; `run` starts no other and raises UserError from now on."""
    _stopping.set()
    for process, grace in list(_running.items()):
        _kill_group(process, grace)


def _go_on() -> None:
    if _stopping.is_set():
        raise UserError("interrupted")


def _keep(
    process: subprocess.Popen[bytes], kept: bytearray, sink: BinaryIO, on_line: Callable[[str], None] | None
) -> None:
    """Append what the program writes, as it comes, to `kept` and to its log."""
    assert process.stdout is not None
    told = 0
    with process.stdout as source, contextlib.suppress(ValueError):  # the log is closed: nobody waits any more
        while fresh := os.read(source.fileno(), 1 << 16):
            kept.extend(fresh)
            sink.write(fresh)
            if on_line is not None:
                whole = kept.rfind(b"\n") + 1
                for line in bytes(kept[told:whole]).decode(errors="replace").splitlines():
                    on_line(line)
                told = max(told, whole)


def _kill_group(process: subprocess.Popen[bytes], grace: float) -> None:
    """End the program and its children. Asked first and given `grace` seconds: make removes half-made files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)  # the group that start_new_session made
        except ProcessLookupError:
            break
        with contextlib.suppress(subprocess.TimeoutExpired):  # the second signal cannot be refused
            process.wait(grace)
