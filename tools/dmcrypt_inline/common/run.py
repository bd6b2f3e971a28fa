"""The one function that runs other programs, and how many run at once."""

import contextlib
import os
import re
import selectors
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import BinaryIO

from .errors import UserError

QUOTED_LINES = 20  # how much of a failed program's output a message repeats
# Of gcc, clang and their linkers: FILE:LINE:COLUMN: error: ..., undefined reference; of modpost: ERROR: modpost.
FIRST_ERROR = re.compile(r":\d+: (fatal )?error: |: undefined reference to |^ERROR: modpost: ")
GRACE = 5.0  # seconds between SIGTERM and SIGKILL

_running: set[subprocess.Popen[bytes]] = set()
_stopping = threading.Event()


@dataclass(frozen=True)
class Completed:
    """One finished program: its command, exit status, standard output and duration (seconds).

    `transcript` is standard output and standard error in the order of their arrival.
    """

    argv: tuple[str, ...]
    returncode: int
    output: str
    seconds: float
    transcript: str = ""


class CommandError(UserError):
    """A program failed, timed out or does not exist (returncode -1: it timed out or never ran)."""

    def __init__(self, why: str, completed: Completed, log: Path) -> None:
        self.completed = completed
        super().__init__(f"{why}\n  command: {shlex.join(completed.argv)}\n  log: {log}{_quoted(completed.transcript)}")


def _quoted(transcript: str) -> str:
    """The part of a transcript that an error message repeats: from a compiler's first error on, else the last lines.

    Other jobs of a parallel make go on writing for a while after the one that failed.
    """
    lines = transcript.splitlines()
    last = max(0, len(lines) - QUOTED_LINES)
    error = next((number for number, line in enumerate(lines[:last]) if FIRST_ERROR.search(line)), None)
    begin, title = (last, "last lines") if error is None else (error, "first error, and the lines after it")
    quoted = indent("\n".join(lines[begin : begin + QUOTED_LINES]), "    ")
    return f"\n  {title}:\n{quoted}" if quoted else ""


def _collect(process: subprocess.Popen[bytes], log: BinaryIO, output: bytearray, transcript: bytearray) -> None:
    """Read both streams, and write them to the log, until the program and its children have closed them."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr, selectors.DefaultSelector() as waiting:
        for stream in (process.stdout, process.stderr):
            waiting.register(stream, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                fresh = os.read(key.fd, 1 << 16)
                if not fresh:
                    waiting.unregister(key.fileobj)
                if key.fileobj is process.stdout:
                    output.extend(fresh)
                transcript.extend(fresh)
                with contextlib.suppress(ValueError):  # `run` has returned and closed the log
                    log.write(fresh)


def run(
    argv: Sequence[str | Path],
    *,
    log: Path,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
) -> Completed:
    """Run a program and return its output.

    `log` receives the command line and both output streams, appended while the program runs.
    `timeout` is in seconds; after it the program and all its children are killed.
    `env` is added to the caller's environment; messages are in English.
    Raises CommandError when the program is missing or too slow, and, unless
    `check` is False, when its exit status is not 0.
    """
    _refuse_when_stopping()
    args = tuple(str(a) for a in argv)
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    timed_out = False
    with log.open("ab", buffering=0) as sink, tempfile.TemporaryFile() as given:
        sink.write(f"$ {shlex.join(args)}\n".encode())
        given.write(stdin or b"")
        given.seek(0)
        environment = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
        try:
            # Signal handlers run in the main thread: none can interrupt this one between the start and _running.
            with ThreadPoolExecutor(1) as starter:
                process = starter.submit(_start, args, cwd, environment, given).result()
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            never = Completed(args, -1, "", 0.0)
            raise CommandError(f"could not start {args[0]}: {error}", never, log) from error
        output, transcript = bytearray(), bytearray()
        reader = threading.Thread(target=_collect, args=(process, sink, output, transcript), daemon=True)
        try:
            reader.start()
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _kill_group(process)
        except BaseException:  # Ctrl-C too: no child may outlive this call
            _kill_group(process)
            raise
        finally:
            _running.discard(process)
            reader.join(GRACE)  # a program in the background may hold the output open
    _refuse_when_stopping()
    completed = Completed(
        args,
        -1 if timed_out else process.returncode,
        bytes(output).decode(errors="replace"),
        time.monotonic() - begin,
        bytes(transcript).decode(errors="replace"),
    )
    if timed_out:
        raise CommandError(f"{args[0]} did not end within {timeout:.0f} s and was killed", completed, log)
    if check and process.returncode != 0:
        raise CommandError(f"{args[0]} ended with exit status {process.returncode}", completed, log)
    return completed


def jobs() -> int:
    """How many compilers or tests to run at once: one for each CPU that this process may use (see taskset)."""
    return len(os.sched_getaffinity(0))


def stop_all() -> None:
    """End every program that runs, in all threads; from now on `run` starts no other and raises UserError."""
    _stopping.set()
    for process in list(_running):
        _kill_group(process)


def _refuse_when_stopping() -> None:
    if _stopping.is_set():
        raise UserError("interrupted")


def _start(
    args: Sequence[str], cwd: Path | None, environment: Mapping[str, str], stdin: BinaryIO
) -> subprocess.Popen[bytes]:
    """Start a program and record it in _running; `stop_all` may be called at the same time."""
    process = subprocess.Popen(
        args,
        cwd=cwd,
        env=environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,  # a program that writes to a cache entry inherits the entry's lock (see paths.locked)
        start_new_session=True,  # a process group of its own, so that its children are killed with it
    )
    _running.add(process)
    if _stopping.is_set():
        _kill_group(process)
    return process


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the program and its children: SIGTERM first, because make then removes half-made files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)  # the group that start_new_session made
        except ProcessLookupError:
            break
        with contextlib.suppress(subprocess.TimeoutExpired):  # a program cannot ignore the second signal
            process.wait(GRACE)
