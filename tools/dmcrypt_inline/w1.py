"""The posting's workload at 4k: from fio's raw results to medians and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .stats import Spread, spread

MIB = 1 << 20
BASELINE = "base:default"  # what everything is compared with, in its own round
CELLS = ("raw", BASELINE, "series:default", "series:no_read_workqueue", "series:no_write_workqueue", "series:both")
DIRECTIONS = ("read", "write")


@dataclass(frozen=True)
class Cell:
    """One mapping in one direction: MiB/s, and how many times the base's default path of the same round."""

    name: str
    direction: str
    throughput: Spread
    ratio: Spread


def throughput(fio: Mapping[str, Any]) -> dict[str, list[float]]:
    """MiB/s by job name ("variant:cell:direction") of one fio JSON document.

    Raises ValueError when a job had an error or moved nothing.
    """
    found: dict[str, list[float]] = {}
    for job in fio["jobs"]:
        name = str(job["jobname"])
        moved = job[name.rpartition(":")[2]]["bw_bytes"] / MIB
        if job["error"] or not moved:
            raise ValueError(f"fio: job {name}: error {job['error']}, {moved} MiB/s")
        found.setdefault(name, []).append(moved)
    return found


def summarise(rounds: Iterable[Iterable[Mapping[str, Any]]]) -> tuple[Cell, ...]:
    """The cells of all rounds; each round is the fio documents of its modules.

    A ratio compares with BASELINE of its own round. Raises ValueError for failed jobs, KeyError for missing ones.
    """
    speeds: dict[tuple[str, str], list[float]] = {}
    ratios: dict[tuple[str, str], list[float]] = {}
    for documents in rounds:
        measured: dict[str, list[float]] = {}
        for document in documents:
            for name, values in throughput(document).items():
                measured.setdefault(name, []).extend(values)
        for direction in DIRECTIONS:
            baseline = statistics.fmean(measured[f"{BASELINE}:{direction}"])
            for cell in CELLS:
                speed = statistics.fmean(measured[f"{cell}:{direction}"])
                speeds.setdefault((cell, direction), []).append(speed)
                ratios.setdefault((cell, direction), []).append(speed / baseline)
    return tuple(Cell(*key, throughput=spread(speeds[key]), ratio=spread(ratios[key])) for key in speeds)
