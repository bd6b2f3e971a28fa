"""fio: a load as its job file, its JSON as a sample's figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .measurements import Load

# Of latency. What lies above 99.9 would be a handful of requests in a sample of 0.6 s.
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)
CELL = "cell"  # the name of the jobs that are measured


@dataclass(frozen=True)
class Figures:
    """What fio measured: seconds, bytes and I/Os of both directions together, latency in microseconds."""

    seconds: float
    bytes: int
    ios: int
    latency_us: Mapping[str, float]


def command(job: Path, output: Path, *, read_only: bool) -> list[str]:
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
    found = json.loads(text[start:])
    assert isinstance(found, dict)
    return found


def figures(document: Mapping[str, Any], number: int) -> Figures:
    """The measured jobs of load `number` (from 0) in a fio JSON document.

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
    return Figures(
        seconds=mixed["runtime"] / 1000,
        bytes=mixed["io_bytes"],
        ios=mixed["total_ios"],
        latency_us={**microseconds, "mean": latency["mean"] / 1000},
    )
