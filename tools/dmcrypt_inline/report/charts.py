"""The charts of a report: one function each, from results to panels; none where nothing of it was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..bench.inguest import labels
from ..bench.inguest.measurements import RAW, Load, Measurement, Results, Sample
from ..bench.inguest.stats import (
    GIB,
    METRICS,
    THROUGHPUT,
    Metric,
    Spread,
    added,
    default_of,
    latency,
    ratio,
    raw_of,
    spread,
)
from . import palette
from .cells import apart, cells, groups, loads, names, setting
from .svg import Line, Panel, Row, bars, distribution, dots, lines, stacks

FOUR_K = 4096

# Parts of the machine's time (measurements.Sample.by_context), what they are called, and their colours.
CONTEXTS: Mapping[str, tuple[str, palette.Colour]] = {
    "jobs": ("submitting task", palette.BLUE),
    "kcryptd": ("kcryptd", palette.VERMILION),
    "write_thread": ("write thread", palette.AMBER),
    "cryptd": ("cryptd", palette.PURPLE),
    "softirq": ("softirq", palette.GREEN),
    "irq": ("hard interrupt", palette.SKY),
    "other_threads": ("other threads", palette.GREY),
}


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


def w1_panels(results: Results, of: Sequence[Load]) -> tuple[Panel, ...]:
    """Throughput of each cell and how many times the base's default path it is, a panel a load."""

    def note(cell: Measurement, value: Spread) -> str:
        reference = default_of(results, cell)
        times = ratio(cell, reference) if reference else None
        return labels.figure(value.median) + (f"  ({labels.figure(times.spread.median)}×)" if times else "")

    drawn = []
    for number, load in enumerate(of):
        rows = bar_rows(results, load, THROUGHPUT, note)
        title = f"{labels.PARTS['rw'](load)}, {labels.block_sizes(load)}"
        drawn += [bars(f"w1-{number}", title, f"MiB/s (× {labels.baseline(results)})", rows)] if rows else []
    return tuple(drawn)


def w1(results: Results) -> Chart | None:
    """The posting of 2020."""
    of = loads(results, "W1")
    if not of:
        return None
    of.sort(key=lambda load: load.block_sizes)
    text = f"{setting(of)}. In brackets: times the base's default path of the same round."
    return chart("w1", of, "Throughput of one job", text, w1_panels(results, of))


def _matrix(
    results: Results, name: str, title: str, value: Callable[[Load, Sample], float], *, unit: str, text: str
) -> Chart | None:
    """W2: a panel for each cipher and direction, in it a row a cell and a dot a block size."""
    of = loads(results, "W2")
    panels = []
    for number, group in enumerate(groups(of, "block_sizes")):
        rows = names(results, group)
        kinds = []
        for load, colour in zip(group, (palette.SKY, palette.AMBER, palette.PURPLE, palette.GREEN, palette.GREY)):
            found = {labels.cell(cell): over_samples(cell, value) for cell in cells(results, load)}
            points = [(place, each) for place, row in enumerate(rows) if (each := found.get(row)) is not None]
            kinds += [Line(labels.block_sizes(load), colour, points)] if points else []
        if kinds:
            panels.append(dots(f"{name}-{number}", apart(group[0], of, ["block_sizes"]), unit, rows, kinds))
    return chart(name, of, title, f"{setting(of)}. {text}", panels) if of else None


def _in_4k(load: Load) -> float:
    """How many requests of 4k one request counts."""
    return sum(load.block_sizes) / 2 / FOUR_K


def w2_throughput(results: Results) -> Chart | None:
    """MiB/s of every mode."""
    return _matrix(results, "w2-throughput", "Throughput", THROUGHPUT.value, unit="MiB/s", text="A dot a block size.")


def w2_iops(results: Results) -> Chart | None:
    """Requests a second, counted in 4k."""
    text = "A request of 64k counts 16, one of 1M counts 256."

    def value(load: Load, sample: Sample) -> float:
        return sample.ios / sample.seconds * _in_4k(load)

    return _matrix(results, "w2-iops", "IOPS normalised to 4k", value, unit="requests of 4k a second", text=text)


def w2_latency(results: Results) -> Chart | None:
    """Median latency, divided by the same factors."""
    text = "The median, divided by 16 for 64k and by 256 for 1M."

    def value(load: Load, sample: Sample) -> float:
        return METRICS["p50"].value(load, sample) / _in_4k(load)

    return _matrix(results, "w2-latency", "Latency normalised to 4k", value, unit="microseconds for each 4k", text=text)


def w3_schedulers(results: Results) -> Chart | None:
    """Parallel random I/O under each scheduler."""
    of = loads(results, "W3")
    panels = []
    shown = groups(of, "scheduler")
    for number, group in enumerate(shown):
        who = names(results, group)
        colours = palette.of_cells(who)
        found = {
            (labels.cell(cell), place): each
            for place, load in enumerate(group)
            for cell in cells(results, load)
            if (each := over_samples(cell, THROUGHPUT.value)) is not None
        }
        kinds = [Line(n, colours[n], [(p, found[n, p]) for p in range(len(group)) if (n, p) in found]) for n in who]
        title = apart(group[0], [load for each in shown for load in each], ["scheduler"])
        rows = [load.scheduler for load in group]
        panels.append(dots(f"w3-schedulers-{number}", title, "MiB/s", rows, [kind for kind in kinds if kind.points]))
    used = [load for group in shown for load in group]
    return chart("w3-schedulers", of, "I/O schedulers", f"{setting(used)}.", panels) if used else None


def w3_requests(results: Results) -> Chart | None:
    """Parallel random I/O with ever larger requests."""
    of = loads(results, "W3")
    across = "largest request, KiB (max_sectors_kb)"
    return over_field(
        results, "w3-requests", of, THROUGHPUT, field="max_sectors_kb", across=across, title="Request size"
    )


def w4_distribution(results: Results) -> Chart | None:
    """How long requests take on devices with a fixed service time."""
    of = loads(results, "W4")
    panels = []
    for number, load in enumerate(of):
        found = cells(results, load)
        colours = palette.of_cells([labels.cell(cell) for cell in found])
        series = []
        for cell in found:
            percentiles = sorted({float(key[1:]) for s in cell.samples for key in s.latency_us if key[0] == "p"})
            points = [(percent, over_samples(cell, latency(f"p{percent:g}").value)) for percent in percentiles]
            kept = [(place, value) for place, value in points if value is not None]
            series += [Line(labels.cell(cell), colours[labels.cell(cell)], kept)] if kept else []
        if series:
            panels.append(distribution(f"w4-distribution-{number}", apart(load, of), "microseconds", series))
    text = "The share of requests that were done after a time, at the percentiles that were kept."
    return chart("w4-distribution", of, "Access time", f"{setting(of)}. {text}", panels) if of else None


def w4_added(results: Results) -> Chart | None:
    """What encryption adds to the median access time."""
    of = loads(results, "W4")
    panels = []
    for number, load in enumerate(of):
        rows = []
        found = [cell for cell in cells(results, load) if cell.variant != RAW]
        colours = palette.of_cells([labels.cell(cell) for cell in found])
        for cell in found:
            raw = raw_of(results, cell)
            more = added(cell, raw, METRICS["p50"]) if raw else None
            if more:
                name = labels.cell(cell)
                rows.append(Row(name, colours[name], more, labels.figure(more.median)))
        panels += [bars(f"w4-added-{number}", apart(load, of), "microseconds more than raw", rows)] if rows else []
    text = "The median access time less that of the raw device in the same round."
    return chart("w4-added", of, "Added access time", f"{setting(of)}. {text}", panels) if of else None


def _bars_of(results: Results, name: str, metric: Metric, title: str) -> Chart | None:
    of = loads(results, "W5")
    found = [(load, bar_rows(results, load, metric)) for load in of]
    panels = [bars(f"{name}-{n}", apart(load, of), metric.unit, rows) for n, (load, rows) in enumerate(found) if rows]
    return chart(name, of, title, f"{setting(of)}.", panels) if of else None


def w5_throughput(results: Results) -> Chart | None:
    """MiB/s of the mixed load."""
    return _bars_of(results, "w5-throughput", THROUGHPUT, "Throughput of a mixed load")


def w5_p99(results: Results) -> Chart | None:
    """The slowest requests of the mixed load but for one in a hundred."""
    return _bars_of(results, "w5-p99", METRICS["p99"], "99th percentile of the latency of a mixed load")


def w5_cost(results: Results) -> Chart | None:
    """CPU time for each GiB, by who spent it."""
    of = loads(results, "W5")
    panels = []
    for number, load in enumerate(of):
        rows = bar_rows(results, load, METRICS["cpu"])
        found = {labels.cell(cell): cell for cell in cells(results, load)}
        parts = []
        for context, (label, colour) in CONTEXTS.items():
            points = []
            for place, row in enumerate(rows):
                used = [s.by_context.get(context, 0.0) / (s.bytes / GIB) for s in found[row.label].samples]
                points.append((float(place), spread(used)))
            parts += [Line(label, colour, points)] if any(value.median for _, value in points) else []
        if rows and parts:
            title = apart(load, of)
            panels.append(stacks(f"w5-cost-{number}", title, METRICS["cpu"].unit, rows, parts))
    text = "Numbers: median of the whole. What kept CPUs busy beside the load is not in it."
    return chart("w5-cost", of, "CPU time per GiB, by context", f"{setting(of)}. {text}", panels) if of else None


def _curve(field: str, across: str, key: str) -> Callable[[Results], Chart | None]:
    metric = METRICS[key]
    name = f"curves-{field.replace('_', '-')}-{key}"
    title = f"{metric.title[0].upper()}{metric.title[1:]} over {across}"

    def draw(results: Results) -> Chart | None:
        return over_field(results, name, loads(results, "curves"), metric, field=field, across=across, title=title)

    return draw


CURVES = (("queue_depth", "queue depth"), ("jobs", "number of jobs"), ("block_sizes", "block size"))
CHARTS: tuple[Callable[[Results], Chart | None], ...] = (
    *(w1, w2_throughput, w2_iops, w2_latency, w3_schedulers, w3_requests, w4_distribution, w4_added),
    *(w5_throughput, w5_p99, w5_cost),
    *(_curve(field, across, key) for field, across in CURVES for key in ("throughput", "cpu")),
)


def charts(results: Results) -> list[Chart]:
    """All charts that these results have the figures for."""
    return [drawn for draw in CHARTS if (drawn := draw(results)) is not None]
