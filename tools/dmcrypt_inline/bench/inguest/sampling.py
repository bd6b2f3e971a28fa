"""Samples: fio, held at a gate before and after its I/O while the CPUs' accounts are read."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from ...common.errors import UserError
from ...common.run import Completed, run
from . import accounting, fio
from .measurements import Load, Sample
from .workloads import Plan

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
        job.write_text(fio.job_file(runs, runtime=plan.runtime, warm_up=plan.warm_up, gate=f"/bin/sh {self.gate}"))
        output = self.results / "raw" / raw
        timeout = (plan.runtime + plan.warm_up) * len(runs) + START_TIMEOUT
        running = self.pool.submit(
            run,
            fio.command(job, output, read_only=self.read_only),
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
            document = fio.parse(output.read_text())
            figures = [fio.figures(document, each) for each in range(len(runs))]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"fio left no result that can be used: {error}\n  see {output}") from error
        return [_sample(number, found, each) for found, each in zip(figures, used)]

    def _usage(self, running: Future[Completed], jobs: int, timeout: float) -> accounting.Usage:
        """Let the jobs of one load in and out of the gate; returns what was used between."""
        self._wait(running, jobs, timeout)
        before = accounting.Snapshot(threads=accounting.threads(), system=accounting.system())  # in this order
        self._let_through(jobs)
        self._wait(running, jobs, timeout)
        after = accounting.Snapshot(system=accounting.system(), threads=accounting.threads())
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


def _sample(number: int, found: fio.Figures, usage: accounting.Usage) -> Sample:
    return Sample(
        round=number,
        seconds=found.seconds,
        bytes=found.bytes,
        ios=found.ios,
        latency_us=found.latency_us,
        cpu_seconds=usage.cpu,
        by_context=usage.by_context,
        context_switches=usage.switches,
    )
