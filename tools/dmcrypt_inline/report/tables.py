"""The tables of a report: what came out of each cell, its ratios and verdicts, and where the time went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from html import escape

from ..bench.inguest import labels
from ..bench.inguest.measurements import RAW, Load, Measurement, Results
from ..bench.inguest.stats import (
    METRICS,
    THROUGHPUT,
    Metric,
    Ratio,
    default_of,
    ratio,
    raw_of,
    same_mode_of,
    spread,
    values,
)

FIELDS = tuple(field.name for field in fields(Load) if field.name != "workload")


def loads(results: Results, workload: str) -> list[Load]:
    """The loads of a workload that some mapping was measured under, in the order of the run."""
    mapped = (cell.load for cell in results.measurements if cell.variant != RAW)
    return [load for load in dict.fromkeys(mapped) if load.workload == workload]


def cells(results: Results, load: Load) -> list[Measurement]:
    """Everything measured under this load; the raw device below it first."""
    found = [cell for cell in results.measurements if cell.load == load and cell.variant != RAW and cell.samples]
    raw = raw_of(results, found[0]) if found else None
    return [raw, *found] if raw is not None and raw.samples else found


def _shared(of: Sequence[Load]) -> list[str]:
    """The fields that are the same in all of these loads."""
    return [name for name in FIELDS if len({getattr(load, name) for load in of}) == 1]


def setting(of: Sequence[Load]) -> str:
    """What all of these loads have in common, in words."""
    return "Load: " + labels.describe(of[0], [name for name in FIELDS if name not in _shared(of)])


def apart(load: Load, of: Sequence[Load], without: str = "") -> str:
    """What sets this load apart from the others, in words, but for the field `without`; its direction if nothing."""
    return labels.describe(load, [*_shared(of), without]) or load.rw


@dataclass(frozen=True)
class Table:
    """Groups of rows with a heading each; `words` are the columns that hold text and no figures."""

    columns: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    words: tuple[int, ...] = ()


def _per_load(
    results: Results,
    workload: str,
    columns: tuple[str, ...],
    row: Callable[[Results, Measurement], tuple[str, ...]],
    words: tuple[int, ...] = (),
) -> Table:
    found = []
    for load in loads(results, workload):
        rows = tuple((labels.cell(cell), *row(results, cell)) for cell in cells(results, load))
        found.append((labels.describe(load), rows))
    # Columns that say something of some cell: not every plan has the raw device.
    kept = [
        n for n in range(len(columns)) if not n or any(row[n] not in ("", "-") for _, rows in found for row in rows)
    ]
    groups = tuple((heading, tuple(tuple(row[n] for n in kept) for row in rows)) for heading, rows in found)
    return Table(tuple(columns[n] for n in kept), groups, tuple(kept.index(n) for n in words if n in kept))


# What a cell is divided by.
REFERENCES = {"raw": raw_of, "default": default_of, "same": same_mode_of}


def over(results: Results, cell: Measurement, to: str, metric: Metric = THROUGHPUT) -> Ratio | None:
    """The cell over one of REFERENCES; None for that itself, the raw device, and where it was not measured."""
    reference = REFERENCES[to](results, cell) if cell.variant != RAW else None
    return ratio(cell, reference, metric) if reference and labels.cell(cell) != labels.cell(reference) else None


def ratios(results: Results, workload: str) -> Table:
    """Throughput of each cell over the default path, the verdict on that, over the raw device, and as it was."""
    name = labels.baseline(results)
    columns = ("", f"× {name}", f"than {name}", "× raw", THROUGHPUT.unit)
    return _per_load(results, workload, columns, _ratio_row, words=(2,))


def _ratio_row(results: Results, cell: Measurement) -> tuple[str, ...]:
    default = over(results, cell, "default")
    return (
        labels.ratio_text(default),
        default.verdict() if default else "",
        labels.ratio_text(over(results, cell, "raw")),
        labels.with_range(spread(values(cell))),
    )


def costs(results: Results, workload: str) -> Table:
    """Latency and CPU time of each cell, and the verdicts on them."""
    name = labels.baseline(results)
    columns = ("", "p50 µs", "p99 µs", "p99.9 µs", f"p99 than {name}", "CPU s/GiB", f"than {name}")
    return _per_load(results, workload, columns, _cost_row, words=(4, 6))


def _cost_row(results: Results, cell: Measurement) -> tuple[str, ...]:
    found = [values(cell, METRICS[name]) for name in ("p50", "p99", "p99.9", "cpu")]
    row = [labels.with_range(spread(each)) if all(each) else "-" for each in found]
    verdicts = []
    for metric in (METRICS["p99"], METRICS["cpu"]):
        default = over(results, cell, "default", metric)
        verdicts.append(default.verdict(metric) if default else "")
    return (*row[:3], verdicts[0], row[3], verdicts[1])


def overview(results: Results, workload: str, metric: Metric, to: str) -> Table:
    """A row a load, a column a cell: the ratios to one of REFERENCES.

    SAME stands behind those that tell no difference, UNTOLD behind those of too few
    rounds. Columns without a ratio are left out.
    """
    of = loads(results, workload)
    found: dict[tuple[Load, str], Ratio] = {}
    for load in of:
        for cell in cells(results, load):
            if (times := over(results, cell, to, metric)) is not None:
                found[load, labels.cell(cell)] = times
    who = tuple(dict.fromkeys(name for _, name in found))
    rows = tuple((apart(load, of), *(_marked(found.get((load, name))) for name in who)) for load in of)
    return Table(("", *who), ((setting(of), rows),) if who else ())


SAME, UNTOLD = "=", "?"


def _marked(ratio: Ratio | None) -> str:
    return labels.ratio_text(ratio) + mark(ratio)


def mark(ratio: Ratio | None) -> str:
    """What stands behind a ratio that cannot be told from 1."""
    return "" if ratio is None or ratio.direction else f" {SAME if ratio.interval else UNTOLD}"


CONTEXTS = ("jobs", "kcryptd", "write_thread", "cryptd", "softirq", "irq", "other_threads")


def where(results: Results, workload: str) -> Table:
    """Of each cell, the share of the CPU time that each context had, in percent, and context switches a request."""
    columns = ("", *(name.replace("_", " ") + " %" for name in CONTEXTS), "switches/request")
    return _per_load(results, workload, columns, _where_row)


def _where_row(_results: Results, cell: Measurement) -> tuple[str, ...]:
    used = {name: sum(sample.by_context.get(name, 0.0) for sample in cell.samples) for name in CONTEXTS}
    whole = sum(used.values())
    shares = [f"{100 * used[name] / whole:.0f}" if whole else "-" for name in CONTEXTS]
    requests = sum(sample.ios for sample in cell.samples)
    switches = sum(sample.context_switches for sample in cell.samples)
    return (*shares, labels.figure(switches / requests) if requests else "-")


def as_html(table: Table, caption: str) -> str:
    """The table in a box of its own that scrolls where the page is too narrow."""

    def text(place: int, word: str, tag: str) -> str:
        kind = ' class="words"' if place in table.words else ""
        return f"<{tag}{kind}>{escape(word)}</{tag}>"

    def line(row: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(text(place, word, tag) for place, word in enumerate(row)) + "</tr>\n"

    body = ""
    for heading, rows in table.groups:
        wide = f'<tr><th scope="rowgroup" colspan="{len(table.columns)}"><span>{escape(heading)}</span></th></tr>\n'
        body += f"<tbody>\n{wide}" + "".join(line(row, "td") for row in rows) + "</tbody>\n"
    head = line(table.columns, "th")
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption)}"><table>'
        f"<caption><span>{escape(caption)}</span></caption>\n<thead>{head}</thead>\n{body}</table></div>\n"
    )


def as_markdown(table: Table) -> str:
    """The table with a line of its own for each group's heading."""
    parts = []
    for heading, rows in table.groups:
        line = ["---" if place in (0, *table.words) else "---:" for place in range(len(table.columns))]
        lines = [table.columns, line, *rows]
        parts.append(f"{heading}:\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n")
    return "\n".join(parts)
