"""Tables and sections of a report, and how figures are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .statistics import Comparison, Spread


@dataclass(frozen=True)
class Table:
    """A caption, the heads of the columns, and rows of text."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """One part of a report. `charts` are functions that draw a chart and return an image as a URI, by title."""

    title: str
    text: str
    charts: Mapping[str, Callable[[], str]]
    tables: Sequence[Table]


def figure(number: float) -> str:
    """At least three digits: 0.058, 0.58, 12.3, 552, 11000."""
    digits = next((digits for digits, least in enumerate((100, 10, 0.1)) if abs(number) >= least), 3)
    return f"{number:.{digits}f}"


def quartiles(found: Spread | None) -> str:
    """A median and its quartiles; a dash for none."""
    return f"{figure(found.median)} ({figure(found.low)}-{figure(found.high)})" if found else "-"


SAME, FEW = "=", "?"  # follow a ratio whose interval holds 1, and one of too few rounds for an interval


def ratio(found: Comparison | None) -> str:
    """A ratio with its interval, in three decimals up to 1.1; a dash for none."""
    if found is None:
        return "-"
    decimals = 3 if found.median < 1.1 else 2
    if found.interval is None:
        return f"{found.median:.{decimals}f} {FEW}"
    low, high = found.interval
    mark = "" if found.differs else f" {SAME}"
    return f"{found.median:.{decimals}f} ({low:.{decimals}f}-{high:.{decimals}f}){mark}"


def without_empty(table: Table) -> Table:
    """The table without the rows and columns that say nothing."""
    rows = [row for row in table.rows if set(row[1:]) - {"-"}]
    kept = [place for place in range(len(table.columns)) if any(row[place] not in ("", "-") for row in rows)]
    columns, *lines = [[row[place] for place in kept] for row in (table.columns, *rows)]
    return Table(table.caption, columns, lines)


def markdown(table: Table) -> str:
    """The table in Markdown, its columns aligned so that it also reads as plain text."""
    lines = [list(table.columns), *map(list, table.rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.columns))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    padded = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))] for line in lines
    ]
    rows = [padded[0], rule, *padded[1:]]
    return f"{table.caption}:\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
