"""A chart as a value, and what charts of several workloads share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..bench.inguest import labels
from ..bench.inguest.measurements import Load, Measurement, Results, Sample
from ..bench.inguest.stats import Metric, Spread, spread
from . import palette
from .cells import apart, cells, groups, names, setting
from .svg import Line, Panel, Row, lines


@dataclass(frozen=True)
class Chart:
    """A figure of the report: `text` says what was done and how to read it."""

    name: str
    workload: str
    title: str
    text: str
    panels: tuple[Panel, ...]


def over_samples(cell: Measurement, value: Callable[[Load, Sample], float]) -> Spread | None:
    """Over the samples; None when one of them has no value, which no scale here could show."""
    found = [value(cell.load, sample) for sample in cell.samples]
    return spread(found) if found and all(each > 0 for each in found) else None


def bar_rows(
    results: Results, load: Load, metric: Metric, note: Callable[[Measurement, Spread], str] | None = None
) -> list[Row]:
    """A bar for each cell under this load; `note` says what stands at its end (default: the median)."""
    found = cells(results, load)
    colours = palette.of_cells([labels.cell(cell) for cell in found])
    rows = []
    for cell in found:
        value = over_samples(cell, metric.value)
        if value is not None:
            text = note(cell, value) if note else labels.figure(value.median)
            rows.append(Row(labels.cell(cell), colours[labels.cell(cell)], value, text))
    return rows


def chart(name: str, of: Sequence[Load], title: str, text: str, panels: Sequence[Panel]) -> Chart | None:
    """The chart of these loads; None without a panel."""
    return Chart(name, of[0].workload, title, text, tuple(panels)) if panels else None


def over_field(
    results: Results, name: str, of: Sequence[Load], metric: Metric, *, field: str, across: str, title: str
) -> Chart | None:
    """A metric over a field of the load that grows, a panel for each combination of the others."""

    def tick(number: float) -> str:
        return labels.size(int(number)) if field == "block_sizes" else f"{number:g}"

    def place(load: Load) -> float:
        return float(load.block_sizes[1] if field == "block_sizes" else getattr(load, field))

    shown = [group for group in groups(of, field) if len(group) > 1]
    used = [load for group in shown for load in group]
    panels = []
    for number, group in enumerate(shown):
        who = names(results, group)
        colours = palette.of_cells(who)
        points: dict[str, list[tuple[float, Spread]]] = {each: [] for each in who}
        for load in group:
            for cell in cells(results, load):
                if (value := over_samples(cell, metric.value)) is not None:
                    points[labels.cell(cell)].append((place(load), value))
        series = [Line(each, colours[each], points[each]) for each in who if points[each]]
        if series:
            wanted = apart(group[0], used, [field])
            panels.append(lines(f"{name}-{number}", wanted, metric.unit, series, across=across, tick=tick))
    return chart(name, of, title, f"{setting(used)}.", panels) if used else None
