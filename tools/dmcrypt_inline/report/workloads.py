"""Tables and charts of a benchmark in a guest, a section for each workload."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from . import charts
from .cells import BASELINE, CPU, P50, P99, P999, THROUGHPUT, Group, Metric, Results, cell_groups
from .tables import Section, Table, figure, quartiles, ratio, without_empty

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
    if any(cell.startswith("base:") and cell != BASELINE for group in of for cell in group.cells):
        tables += _compared(of, f"{THROUGHPUT.title} / base in the same mode", _same_mode)
    drawn = {
        f"{metric.title}, {metric.unit}; {shown}": partial(_bars, groups, metric)
        for metric in metrics
        for shown, groups in _shown_together(of).items()
        if any(group.values(cell, metric) for group in groups.values() for cell in group.cells)
    }
    return Section(f"{name}: {title}", text, drawn, tables)


def _value(group: Group, cell: str, metric: Metric) -> str:
    return quartiles(group.spread(cell, metric))


def _ratio(group: Group, cell: str, metric: Metric) -> str:
    return ratio(group.ratio(cell, BASELINE, metric))


def _same_mode(group: Group, cell: str) -> str:
    return ratio(group.ratio(cell, f"base:{cell.partition(':')[2]}", THROUGHPUT))


def _shown_together(of: list[Group]) -> dict[str, dict[str, Group]]:
    """The groups by title, by load those of each setting with several loads, by setting all others."""
    found: dict[str, dict[str, Group]] = {}
    single: dict[str, Group] = {}
    for setting in dict.fromkeys(group.setting for group in of):
        loads = {group.load: group for group in of if group.setting == setting}
        if len(loads) > 1:
            found[setting] = loads
        else:
            single[setting] = next(iter(loads.values()))
    return found | ({next(iter(single.values())).load: single} if single else {})


def _compared(of: list[Group], caption: str, text: Callable[[Group, str], str]) -> list[Table]:
    """Tables of the `text` of each cell, with a column for each load, or a row for each setting with one load."""
    tables = []
    for title, groups in _shown_together(of).items():
        names = dict.fromkeys(name for group in groups.values() for name in group.cells)
        lines = [["", *groups]]
        lines += [[name, *(text(group, name) for group in groups.values())] for name in names]
        if title not in {group.setting for group in of}:
            lines = list(map(list, zip(*lines)))
        tables.append(without_empty(Table(f"{caption}; {title}", lines[0], lines[1:])))
    return [table for table in tables if table.rows]


def _bars(groups: Mapping[str, Group], metric: Metric) -> str:
    """A panel for each group: the metric of its cells and, in brackets, the ratio to the baseline."""
    panels: dict[str, charts.Panel] = {}
    for title, group in groups.items():
        for name in group.cells:
            value, times = group.spread(name, metric), group.ratio(name, BASELINE, metric)
            if value is not None:
                text = figure(value.median) + (f" ({times.median:.2f}×)" if times else "")
                panels.setdefault(title, {})[name] = (value, text)
    return charts.bars(panels, metric.unit)
