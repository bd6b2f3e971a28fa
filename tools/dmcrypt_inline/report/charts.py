"""The charts of a report: what each shows of which loads, and how; none where nothing of it was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..bench.inguest import labels
from ..bench.inguest.measurements import RAW, Load, Measurement, Results, Sample
from ..bench.inguest.stats import METRICS, THROUGHPUT, Metric, Spread, added, default_of, ratio, raw_of, spread, values
from .svg import Row, bars, lines
from .tables import apart, cells, loads, setting

FOUR_K = 4096


Value = Callable[[Results, Measurement, Metric], Spread | None]  # what is shown of a cell


@dataclass(frozen=True)
class Chart:
    """A figure of the report: of which workload, what it shows of each cell, and the function that draws its panels.

    `draw` gets the panels' name, a group of loads and all loads of the chart, from which
    it is told apart. The loads of a group differ in `field` only; "": all of the workload
    are one. `text` says how to read it. `panels` are SVG elements, once it is drawn.
    """

    name: str
    workload: str
    title: str
    draw: Callable[[Chart, Results, str, Sequence[Load], Sequence[Load]], Iterable[str]]
    metric: Metric = THROUGHPUT
    field: str = ""
    text: str = ""
    value: Value | None = None  # default: over_samples
    panels: tuple[str, ...] = ()


def over_samples(_results: Results, cell: Measurement, metric: Metric) -> Spread | None:
    """The metric; None when one of the samples has no value, which no scale here could show."""
    found = values(cell, metric)
    return spread(found) if found and all(each > 0 for each in found) else None


def over_raw(results: Results, cell: Measurement, metric: Metric) -> Spread | None:
    """How much more than the raw device in the same round the cell has; None for that itself."""
    raw = raw_of(results, cell) if cell.variant != RAW else None
    return added(cell, raw, metric) if raw else None


def shown(results: Results, load: Load, metric: Metric, value: Value = over_samples) -> dict[str, Spread]:
    """The values of all cells under this load that have one."""
    found = {labels.cell(cell): value(results, cell, metric) for cell in cells(results, load)}
    return {name: each for name, each in found.items() if each is not None}


def groups(of: Iterable[Load], field: str) -> list[list[Load]]:
    """The loads that differ in this field only, together, by rising value; those that left it alone are left out."""
    found: dict[Load, list[Load]] = {}
    for load in of:
        value: Any = getattr(load, field)
        if value:
            neutral: Any = (0, 0) if field == "block_sizes" else type(value)()
            found.setdefault(replace(load, **{field: neutral}), []).append(load)
    # Names stay in the order of the run, numbers rise.
    rising: Callable[[Load], Any] = lambda load: "" if field == "scheduler" else getattr(load, field)  # noqa: E731
    together = [sorted(group, key=rising) for group in found.values()]
    longest = max(map(len, together), default=0)
    return [group for group in together if len(group) > 1 or longest == 1]


def w1_panels(results: Results, titles: Mapping[Load, str]) -> list[str]:
    """Throughput of each cell and how many times the base's default path it is, a panel a load."""
    drawn = []
    for number, (load, title) in enumerate(titles.items()):
        rows = []
        for cell in cells(results, load):
            reference = default_of(results, cell)
            times = ratio(cell, reference) if reference else None
            value = over_samples(results, cell, THROUGHPUT)
            if value is not None:
                more = f"  ({labels.figure(times.spread.median)}×)" if times else ""
                rows.append(Row(labels.cell(cell), value, labels.figure(value.median) + more))
        drawn += [bars(f"w1-{number}", title, f"MiB/s (× {labels.baseline(results)})", rows)] if rows else []
    return drawn


def _w1(_: Chart, results: Results, _name: str, group: Sequence[Load], used: Sequence[Load]) -> list[str]:
    return w1_panels(results, {load: apart(load, used) for load in group})


def _bars(chart: Chart, results: Results, name: str, group: Sequence[Load], used: Sequence[Load]) -> Iterable[str]:
    """A panel a load, in it a bar a cell."""
    for number, load in enumerate(group):
        found = shown(results, load, chart.metric, chart.value or over_samples)
        rows = [Row(cell, value, labels.figure(value.median)) for cell, value in found.items()]
        if rows:
            yield bars(f"{name}-{number}", apart(load, used), chart.metric.unit, rows)


def _lines(chart: Chart, results: Results, name: str, group: Sequence[Load], used: Sequence[Load]) -> Iterable[str]:
    """A line a cell over the field that grows; bars where it does not."""
    if len(group) == 1:
        yield from _bars(chart, results, name, group, used)
        return
    sizes = chart.field == "block_sizes"
    series: dict[str, dict[float, Spread]] = {}
    for load in group:
        place = load.block_sizes[1] if sizes else getattr(load, chart.field)
        for cell, value in shown(results, load, chart.metric).items():
            series.setdefault(cell, {})[place] = value
    if series:
        title = apart(group[0], used, chart.field)
        tick = (lambda place: labels.size(int(place))) if sizes else "{:g}".format
        yield lines(name, title, chart.metric.unit, series, across=GROWING[chart.field], tick=tick)


def _in_4k(load: Load) -> float:
    """How many requests of 4k one request counts."""
    return sum(load.block_sizes) / 2 / FOUR_K


def _ios_in_4k(load: Load, sample: Sample) -> float:
    return sample.ios / sample.seconds * _in_4k(load)


def _latency_in_4k(load: Load, sample: Sample) -> float:
    return METRICS["p50"].value(load, sample) / _in_4k(load)


GROWING = {
    "max_sectors_kb": "largest request, KiB (max_sectors_kb)",
    "queue_depth": "queue depth",
    "jobs": "number of jobs",
    "block_sizes": "block size",
}
IOPS_4K = Metric("", "requests of 4k a second", _ios_in_4k, "", "")
LATENCY_4K = Metric("", "microseconds for each 4k", _latency_in_4k, "", "")
IN_BRACKETS = "In brackets: times the base's default path of the same round."
FACTORS = "A request of 64k counts 16, one of 1M counts 256."
DIVIDED = "The median, divided by 16 for 64k and by 256 for 1M."
LESS_RAW = "The median access time less that of the raw device in the same round."
WITHOUT = "What kept CPUs busy beside the load is not in it."
CHARTS = (
    Chart("w1", "W1", "Throughput of one job", _w1, text=IN_BRACKETS),
    Chart("w2-throughput", "W2", "Throughput", _lines, THROUGHPUT, "block_sizes"),
    Chart("w2-iops", "W2", "IOPS normalised to 4k", _lines, IOPS_4K, "block_sizes", FACTORS),
    Chart("w2-latency", "W2", "Latency normalised to 4k", _lines, LATENCY_4K, "block_sizes", DIVIDED),
    Chart("w3-schedulers", "W3", "I/O schedulers", _bars, field="scheduler"),
    Chart("w3-requests", "W3", "Request size", _lines, field="max_sectors_kb"),
    *(
        Chart(f"w4-{percentile}", "W4", f"Access time: {percentile}", _bars, METRICS[percentile])
        for percentile in ("p50", "p99", "p99.9")
    ),
    Chart("w4-added", "W4", "Added access time", _bars, METRICS["p50"], text=LESS_RAW, value=over_raw),
    Chart("w5-throughput", "W5", "Throughput of a mixed load", _bars),
    Chart("w5-p99", "W5", "99th percentile of the latency of a mixed load", _bars, METRICS["p99"]),
    Chart("w5-cost", "W5", "CPU time per GiB", _bars, METRICS["cpu"], text=WITHOUT),
    *(
        Chart(f"curves-{field}-{key}", "curves", f"{title} over {GROWING[field]}", _lines, METRICS[key], field)
        for field in ("queue_depth", "jobs", "block_sizes")
        for key, title in (("throughput", "Throughput"), ("cpu", "CPU time per GiB"))
    ),
)


def charts(results: Results) -> list[Chart]:
    """All charts that these results have the figures for."""
    found = []
    for chart in CHARTS:
        of = loads(results, chart.workload)
        together = groups(of, chart.field) if chart.field else [of]
        used = [load for group in together for load in group]
        panels: list[str] = []
        for number, group in enumerate(together):
            panels += chart.draw(chart, results, f"{chart.name}-{number}", group, used)
        if panels:
            found.append(replace(chart, text=f"{setting(used)}. {chart.text}".strip(), panels=tuple(panels)))
    return found
