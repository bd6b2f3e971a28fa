"""The results of make bench by cell: a load on one variant in one mode."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bench.inguest import RAW
from ..common.errors import UserError
from .statistics import Comparison, Spread, compare, spread

BASELINE = "base:default"
GIB, MIB = 1 << 30, 1 << 20
TAIL = 10  # requests beyond a percentile; with fewer it is the time of a few outliers
Results = Mapping[str, Any]
Sample = Mapping[str, Any]


def read_results(path: Path) -> Results:
    """The results in a file. Raises UserError when it is no results file of make bench."""
    try:
        found = json.loads(path.read_text())
        if found["kind"] in ("fio", "sectors") and found["environment"]["target"]:
            return dict(found)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is no results file of make bench: {type(error).__name__}: {error}") from error
    raise UserError(f"{path} is no results file of make bench")


@dataclass(frozen=True)
class Metric:
    """One figure of a sample; `value` is None where the sample does not have it."""

    title: str
    unit: str
    value: Callable[[Sample], float | None]


def percentile(name: str) -> Metric:
    """The latency that `name` ("p99") percent of the requests do not exceed; none with too few requests beyond it."""
    beyond = (100 - float(name.removeprefix("p"))) / 100

    def value(sample: Sample) -> float | None:
        found: float | None = sample["latency_us"].get(name)
        return found if sample["ios"] * beyond >= TAIL else None

    return Metric(f"latency, {name}", "µs", value)


THROUGHPUT = Metric("throughput", "MiB/s", lambda sample: sample["bytes"] / sample["seconds"] / MIB)
P50, P99, P999 = (percentile(name) for name in ("p50", "p99", "p99.9"))
# of fio, of kernel threads and in interrupts
CPU = Metric("CPU time", "CPU s/GiB", lambda it: sum(it["cpu_s"].values()) * GIB / it["bytes"] if it["cpu_s"] else None)


@dataclass(frozen=True)
class Group:
    """The cells of one load in one setting, which alone are compared with each other: their samples by round.

    A cell is called by variant and mode: "series:both"; the device itself just "raw".
    """

    workload: str
    setting: str
    load: str
    cells: dict[str, dict[int, Sample]] = field(default_factory=dict)

    def values(self, cell: str, metric: Metric) -> dict[int, float]:
        """The metric by round; rounds without it are missing."""
        found = {number: metric.value(sample) for number, sample in self.cells.get(cell, {}).items()}
        return {number: value for number, value in found.items() if value is not None}

    def spread(self, cell: str, metric: Metric) -> Spread | None:
        """Median and quartiles of the metric; None where no sample has it."""
        found = self.values(cell, metric)
        return spread(list(found.values())) if found else None

    def ratio(self, cell: str, reference: str, metric: Metric) -> Comparison | None:
        """The cell's metric divided by the reference's; None for the reference itself and where one is missing."""
        return None if cell == reference else compare(self.values(cell, metric), self.values(reference, metric))


def cell_groups(results: Results) -> list[Group]:
    """All groups in the order of the run, their cells in the order of the first round."""
    found: dict[tuple[str, str, str], Group] = {}
    for sample in results["samples"]:
        key = (sample["workload"], sample["setting"], sample["load"])
        cell = RAW if sample["variant"] == RAW else f"{sample['variant']}:{sample['mode']}"
        found.setdefault(key, Group(*key)).cells.setdefault(cell, {})[sample["round"]] = sample
    return list(found.values())
