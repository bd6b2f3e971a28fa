"""Tables and charts of a benchmark in a guest, a section for each workload."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..bench.inguest import RAW
from . import charts
from .cells import BASELINE, CPU, P50, P99, P999, THROUGHPUT, Group, Metric, Results, by_setting, cell_groups
from .tables import Chart, Section, Table, figure, quartiles, ratio, without_empty_columns

# The title of each workload, its origin, and the metrics that decide it.
WORKLOADS: Mapping[str, tuple[str, str, Sequence[Metric]]] = {
    "W1": ("Throughput of one job", "The posting of 2020: one request at a time on a RAM disk.", (THROUGHPUT,)),
    "W2": (
        "All modes",
        "The comparison for kernel 5.9: every mode, three block sizes, two ciphers.",
        (THROUGHPUT, P50),
    ),
    "W3": ("Parallel random I/O", "The load that the worker threads were written for in 2013.", (THROUGHPUT,)),
    "W4": ("Access time", "One request at a time on devices with a fixed service time (2011).", (P50, P99, P999)),
    "W5": (
        "A mixed load",
        "Readers and writers at once while the CPUs have other work (2020).",
        (THROUGHPUT, P99, CPU),
    ),
}
NOTES = (
    "Ratios are medians over the rounds of one boot, each taken within a round; in brackets the 90 % confidence "
    "interval. '=': the interval holds 1, no difference. '?': too few rounds for an interval.",
    "Other figures are medians with their quartiles. They hold for this boot alone.",
)
# The mark of a variant in charts.
COLOURS = {RAW: charts.GREY, "base": charts.colour(1), "series": charts.colour(0)}


def sections(results: Results) -> list[Section]:
    """A section for each workload that was measured."""
    found = cell_groups(results)
    return [
        _section(name, [group for group in found if group.workload == name])
        for name in dict.fromkeys(group.workload for group in found)
    ]


def _section(name: str, of: list[Group]) -> Section:
    title, text, metrics = WORKLOADS[name]
    tables = _compared(of, f"{metrics[0].title}, {metrics[0].unit}", partial(_value, metric=metrics[0]))
    for metric in metrics:
        tables += _compared(of, f"{metric.title} / {BASELINE}", partial(_ratio, metric=metric))
    if any(cell.variant == "base" and cell.mode != "default" for group in of for cell in group.cells.values()):
        tables += _compared(of, f"{THROUGHPUT.title} / base in the same mode", _same_mode)
    drawn = [chart for metric in metrics for chart in _charts(of, metric)]
    return Section(f"{name}: {title}", text, drawn, tables)


def _value(group: Group, cell: str, metric: Metric) -> str:
    return quartiles(group.cells[cell].spread(metric))


def _ratio(group: Group, cell: str, metric: Metric) -> str:
    return ratio(group.ratio(cell, BASELINE, metric))


def _same_mode(group: Group, cell: str) -> str:
    return ratio(group.ratio(cell, f"base:{group.cells[cell].mode}", THROUGHPUT))


def _compared(of: list[Group], caption: str, text: Callable[[Group, str], str]) -> list[Table]:
    """Tables of the `text` of each cell: one for each setting with several loads, with a column a load, one for all
    others.
    """
    tables, single = [], []
    for setting, found in by_setting(of):
        if len(found) == 1:
            single += found
            continue
        names = _names(found)
        rows = [[name, *(text(group, name) if name in group.cells else "-" for group in found)] for name in names]
        tables.append(Table(f"{caption}; {setting}", ["", *(group.load for group in found)], rows))
    if single:
        names = _names(single)
        rows = [[each.setting, *(text(each, name) if name in each.cells else "-" for name in names)] for each in single]
        tables.append(without_empty_columns(Table(f"{caption}; {single[0].load}", ["", *names], rows)))
    said = [
        Table(table.caption, table.columns, [row for row in table.rows if set(row[1:]) - {"-"}]) for table in tables
    ]
    return [table for table in said if table.rows]


def _names(of: list[Group]) -> list[str]:
    return list(dict.fromkeys(name for group in of for name in group.cells))


def _charts(of: list[Group], metric: Metric) -> list[Chart]:
    """A chart of each setting with several loads, and one of all others."""
    split = [(setting, found) for setting, found in by_setting(of)]
    named = [(setting, {group.load: group for group in found}) for setting, found in split if len(found) > 1]
    single = {group.setting: group for _, found in split if len(found) == 1 for group in found}
    named += [(next(iter(single.values())).load, single)] if single else []
    title = f"{metric.title}, {metric.unit}; "
    return [
        Chart(title + setting, partial(_bars, panels, metric))
        for setting, panels in named
        if any(cell.values(metric) for group in panels.values() for cell in group.cells.values())
    ]


def _bars(groups_by_title: Mapping[str, Group], metric: Metric) -> str:
    """A panel for each group: the metric of its cells and, in brackets, the ratio to the baseline."""
    panels = {}
    for title, group in groups_by_title.items():
        found = []
        for name, cell in group.cells.items():
            value, times = cell.spread(metric), group.ratio(name, BASELINE, metric)
            if value is not None:
                text = figure(value.median) + (f" ({times.median:.2f}×)" if times else "")
                found.append(charts.Bar(name, value, text, COLOURS.get(cell.variant, charts.colour(2))))
        if found:
            panels[title] = found
    return charts.bars(panels, metric.unit)
