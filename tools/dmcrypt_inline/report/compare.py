"""compare A B: what changed between two benchmark runs, judged by ratios that each run took within one boot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..bench.inguest import labels, measurements
from ..bench.inguest.measurements import RAW, Load, Results
from ..bench.inguest.stats import ERROR, FEW, METRICS, Metric, Ratio, between
from ..common.errors import UserError
from ..common.progress import say
from .tables import over

SAME = ("kernel_release", "kernel_flavour", "accel", "cpu", "modules")  # of the environment; said when different


@dataclass(frozen=True)
class Comparison:
    """One cell of both files: its ratio to `reference` in each, and how many times the first the second is."""

    load: Load
    cell: str
    reference: str
    first: Ratio
    second: Ratio
    times: Ratio

    def verdict(self, metric: Metric) -> str:
        """In the metric's word, or that there are too few rounds to tell."""
        few = f"{FEW}: {self.first.rounds} and {self.second.rounds}"
        return self.times.verdict(metric) if self.times.interval else few


def _ratios(results: Results, metric: Metric) -> dict[tuple[Load, str, str], Ratio]:
    """By load, cell and what it is divided by: the default path, or the raw device for that itself."""
    name = labels.baseline(results)
    found = {}
    for cell in results.measurements:
        called = labels.cell(cell)
        to, reference = ("raw", RAW) if called == name else ("default", name)
        if (times := over(results, cell, to, metric)) is not None:
            found[cell.load, called, reference] = times
    return found


def rows(first: Results, second: Results, metric: Metric) -> list[Comparison]:
    """The cells that both results have, with the same reference under the same load; see Comparison."""
    others = _ratios(second, metric)
    found = []
    for (load, cell, reference), one in _ratios(first, metric).items():
        if (other := others.get((load, cell, reference))) is not None:
            found.append(Comparison(load, cell, reference, one, other, between(one, other)))
    return found


def render(found: Sequence[Comparison], metric: Metric, notes: Sequence[str]) -> str:
    """The table for the terminal: per load, the ratios of each boot with quartiles, B over A with its interval."""
    lines = [
        f"{metric.title}: A and B are medians of the ratios within a round, to a cell of the same boot (quartiles);",
        f"B/A is their quotient (interval that misses the true one in at most {ERROR} of the cases)",
    ]
    for load in dict.fromkeys(row.load for row in found):
        lines += ["", f"{load.workload}: {labels.describe(load)}"]
        lines += [f"  {'':30}{'over':14}{'A':>24}{'B':>24}{'B/A':>24}  of these two boots"]
        for row in (each for each in found if each.load == load):
            interval = " ({} to {})".format(*map(labels.figure, row.times.interval)) if row.times.interval else ""
            ratios = f"{labels.with_range(row.first.spread):>24}{labels.with_range(row.second.spread):>24}"
            quotient = f"{labels.figure(row.times.spread.median)}{interval}"
            lines.append(f"  {row.cell:30}{row.reference:14}{ratios}{quotient:>24}  {row.verdict(metric)}")
    told = sum(bool(row.times.direction) for row in found)
    lines += ["", f"{len(found)} cells, {told} with a difference; where there is none at all, up to"]
    lines += [f"{float(len(found) * ERROR):.0f} of them would be called different by chance."]
    lines += ["Each file is one boot: what differs from boot to boot is not in these intervals."]
    return "\n".join([*lines, *notes])


def notes(first: Results, second: Results, compared: int) -> list[str]:
    """What the reader must know about the two files: how the environments differ, what could not be compared."""
    lines = []
    for name in SAME:
        values = first.environment.get(name), second.environment.get(name)
        if values[0] != values[1]:
            lines.append(f"note: {name} differs: A {values[0]}, B {values[1]}")
    for name, results in (("A", first), ("B", second)):
        mapped = sum(cell.variant != RAW for cell in results.measurements)
        if mapped > compared:
            lines.append(f"note: {mapped - compared} of {mapped} cells of {name} have no counterpart or no reference")
        if results.cut_short:
            lines.append(f"note: {name} was cut short: {results.cut_short}")
    return lines


def compare(first: Path, second: Path, metric_name: str) -> int:
    """Print how B differs from A; returns 0 whatever it finds. Raises UserError when nothing can be compared."""
    metric = METRICS[metric_name]
    results = measurements.read(first), measurements.read(second)
    found = rows(*results, metric)
    if not found:
        raise UserError(
            f"{first} and {second} have no cell in common with a ratio of the same load\n"
            "  give two results files of `make bench` that measured the same plan"
        )
    for name, path, each in zip("AB", (first, second), results):
        say(f"{name}: {path}: {each.plan}, started {each.started}, {each.environment.get('accel')}")
    say(render(found, metric, notes(*results, len(found))))
    return 0
