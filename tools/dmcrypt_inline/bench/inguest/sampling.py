"""Samples: fio, held at a gate before and after its I/O while the CPUs' accounts are read.

A load becomes a part of fio's job file, its JSON the figures of a sample.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from ...common.errors import UserError
from ...common.run import Completed, run
from . import accounting
from .measurements import Load, Sample
from .workloads import Plan

# Of latency. What lies above 99.9 would be a handful of requests in a sample of 0.6 s.
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)
CELL = "cell"  # the name of the jobs that are measured
START_TIMEOUT = 600.0  # seconds besides the run time; against a hang, not to hurry a busy emulator
POLL = 0.05  # seconds between two looks whether fio has ended instead of coming to the gate

# What each of fio's jobs runs with sh, because a file in a temporary directory may not be
# allowed to run: say that it has come, wait to be let through; it fails when all is to end.
GATE = """echo "$1" >{place}/come
read -r _ <{place}/go
test ! -e {place}/end
"""


class Sampler:
    """Takes samples; a context manager, because the gate is made of files. `read_only`: fio must not write."""

    def __init__(self, results: Path, *, read_only: bool) -> None:
        self.results = results
        self.read_only = read_only
        (results / "raw").mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Sampler:
        self.place = Path(tempfile.mkdtemp(prefix="dmcrypt-inline-"))
        self.gate = self.place / accounting.GATE
        self.gate.write_text(GATE.format(place=self.place))
        for name in ("come", "go"):
            os.mkfifo(self.place / name)
        # Open for both directions: neither end ever waits for the other or sees an end of file.
        self.come = os.open(self.place / "come", os.O_RDWR)
        self.go = os.open(self.place / "go", os.O_RDWR)
        self.pool = ThreadPoolExecutor(1)
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()
        os.close(self.come)
        os.close(self.go)
        shutil.rmtree(self.place, ignore_errors=True)  # fio may still be writing its last words there

    def samples(self, runs: Sequence[tuple[Load, str]], plan: Plan, number: int, raw: str) -> list[Sample]:
        """Run each of the loads on the device node beside it once, as round `number`.

        One fio runs them all: its start costs as much as a sample. Its JSON is kept
        in raw/ under the name `raw`. Raises UserError when fio fails, or reports what cannot be.
        Whatever it raises, fio has ended: the device may be taken away.
        """
        job = self.place / "job.fio"
        job.write_text(job_file(runs, runtime=plan.runtime, warm_up=plan.warm_up, gate=f"/bin/sh {self.gate}"))
        output = self.results / "raw" / raw
        timeout = (plan.runtime + plan.warm_up) * len(runs) + START_TIMEOUT
        running = self.pool.submit(
            run,
            fio_command(job, output, read_only=self.read_only),
            log=self.results / "fio.log",
            timeout=timeout,
            cwd=self.place,
        )
        try:
            used = [self._usage(running, load.jobs, timeout) for load, _ in runs]
            running.result()
        except BaseException:
            (self.place / "end").touch()
            self._let_through(2 * sum(load.jobs for load, _ in runs))
            wait([running])
            raise
        try:
            document = parse(output.read_text())
            return [sample(document, each, number, usage) for each, usage in enumerate(used)]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"fio left no result that can be used: {error}\n  see {output}") from error

    def _usage(self, running: Future[Completed], jobs: int, timeout: float) -> dict[str, Any]:
        """Let the jobs of one load in and out of the gate; returns what was used between."""
        self._wait(running, jobs, timeout)
        threads = accounting.threads()  # first before, last after
        before = accounting.Snapshot(*accounting.system(), threads)
        self._let_through(jobs)
        self._wait(running, jobs, timeout)
        after = accounting.Snapshot(*accounting.system(), accounting.threads())
        self._let_through(jobs)
        return accounting.usage(before, after)

    def _wait(self, running: Future[Completed], jobs: int, timeout: float) -> None:
        """Return when all jobs have come to the gate. Raises UserError when fio ends before, or they do not come."""
        end = time.monotonic() + timeout
        came = 0
        while came < jobs:
            if select.select([self.come], [], [], POLL)[0]:
                came += os.read(self.come, 4096).count(b"\n")
            elif running.done():
                running.result()
                raise UserError(f"fio ended before its jobs did their work\n  see {self.results / 'fio.log'}")
            elif time.monotonic() > end:
                raise UserError(f"fio's jobs did not start or end within {timeout:.0f} s")

    def _let_through(self, jobs: int) -> None:
        os.write(self.go, b"\n" * jobs)


def fio_command(job: Path, output: Path, *, read_only: bool) -> list[str]:
    """How fio carries out a job file, its JSON in `output`; with `read_only` it refuses jobs that write."""
    return ["fio", "--output-format=json", f"--output={output}", *(["--readonly"] if read_only else []), str(job)]


def job_file(runs: Sequence[tuple[Load, str]], *, runtime: float, warm_up: float, gate: str) -> str:
    """The job file: for each load, on the device node beside it, a warm-up, then the jobs measured; times in seconds.

    `gate` is a command that each measured job runs with "before" and "after" as
    argument, and that returns when the measuring program has looked at the CPUs.
    Raises ValueError when the jobs of a load cannot be divided among its fio words, or its engine has no such depth.
    """
    lines = [
        *("[global]", "direct=1", "time_based", "norandommap", "randrepeat=1"),
        *("unified_rw_reporting=mixed", "group_reporting", "lat_percentiles=1", "clat_percentiles=0"),
        f"percentile_list={':'.join(str(percent) for percent in PERCENTILES)}",
    ]
    for number, (load, node) in enumerate(runs):
        lines += _jobs(f"warm-up-{number}", load, node, warm_up)
        gates = f"exec_prerun={gate} before", f"exec_postrun={gate} after"
        lines += _jobs(f"{CELL}-{number}", load, node, runtime, *gates)
    return "\n".join(lines) + "\n"


def _jobs(name: str, load: Load, node: str, seconds: float, *more: str) -> Iterator[str]:
    """A group of jobs that starts when the group before has ended."""
    escaped = node.replace(":", r"\:")  # a colon stands between two names
    smallest, largest = load.block_sizes
    words = load.rw.split(",")
    each, rest = divmod(load.jobs, len(words))
    if rest:
        raise ValueError(f"{load.jobs} jobs cannot be divided by {load.rw}")
    if load.engine == "psync" and load.queue_depth > 1:
        raise ValueError(f"psync has no queue depth of {load.queue_depth}")
    for word in words:
        yield from (
            "",
            f"[{name}]",
            f"filename={escaped}",
            f"rw={word}",
            f"numjobs={each}",
            f"runtime={seconds * 1000:.0f}ms",
        )
        yield from (f"bsrange={smallest}-{largest}", f"blockalign={smallest}")
        yield from (f"ioengine={load.engine}", f"iodepth={load.queue_depth}")
        yield from ("stonewall",) if word == words[0] else ()
        yield from more


def parse(text: str) -> dict[str, Any]:
    """The document that fio wrote; warnings may stand before it. Raises ValueError when there is none."""
    start = text.find("{")
    if start < 0:
        raise ValueError("fio wrote no JSON")
    found: dict[str, Any] = json.loads(text[start:])
    return found


def sample(document: Mapping[str, Any], number: int, round_number: int, usage: Mapping[str, Any]) -> Sample:
    """The measured jobs of load `number` (from 0) in a fio JSON document, both directions together.

    Raises ValueError when they are missing, had an error or moved nothing.
    """
    found = [job for job in document.get("jobs", ()) if job.get("jobname") == f"{CELL}-{number}"]
    if len(found) != 1:
        raise ValueError(f"fio reports {len(found)} groups of measured jobs for load {number}, not one")
    for job in document["jobs"]:
        if job["error"]:
            raise ValueError(f"fio: {job['jobname']} failed with error {job['error']}")
    mixed = found[0]["mixed"]
    if not mixed["io_bytes"] or not mixed["runtime"]:
        raise ValueError("fio moved nothing")
    latency = mixed["lat_ns"]
    microseconds = {f"p{float(percent):g}": found / 1000 for percent, found in latency["percentile"].items()}
    return Sample(
        round=round_number,
        seconds=mixed["runtime"] / 1000,
        bytes=mixed["io_bytes"],
        ios=mixed["total_ios"],
        latency_us={**microseconds, "mean": latency["mean"] / 1000},
        **usage,
    )
