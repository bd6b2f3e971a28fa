"""Panels of charts as SVG text: bars, dots, lines, stacks. matplotlib is imported only when one is drawn.

A panel is narrow enough for a phone; wide pages put several side by side. Text stays
text, in the page's own font. Colours are style sheet variables (see palette).
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..bench.inguest.stats import Spread
from .palette import Colour, rules, with_variables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 360  # points, which are the SVG's own unit: about a phone's width in pixels
INCH = 72  # points
TITLE_WIDTH = 52  # characters that fit over a panel
EDGE = 8  # points around the panels of a file of its own
ROW = 21  # points, of one row of bars or dots
MARKER, STROKE = 5.0, 1.4  # points
STYLE: Any = {  # of type Any: matplotlib knows its keys by name
    "svg.fonttype": "none",
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.18,
    "grid.color": "#000000",
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.2,
    "errorbar.capsize": 2.5,
}


@dataclass(frozen=True)
class Panel:
    """One picture of a chart: an SVG element for a page that has palette.rules; `title` says what it shows."""

    name: str
    title: str
    svg: str


@dataclass(frozen=True)
class Row:
    """One bar: its label, colour, value, and what is written at its end."""

    label: str
    colour: Colour
    value: Spread
    note: str


@dataclass(frozen=True)
class Line:
    """One line or one kind of dot: label, colour, and the values by place (a number, or a row's label)."""

    label: str
    colour: Colour
    points: Sequence[tuple[float, Spread]]


@contextmanager
def _canvas(name: str, height: float) -> Iterator[tuple[Figure, Axes]]:
    """An empty panel of this height in points, with the same settings on every machine."""
    import matplotlib  # noqa: PLC0415  (slow to import, and in the tools' own environment only)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**STYLE, "svg.hashsalt": name})
        figure = Figure(figsize=(WIDTH / INCH, height / INCH), layout="constrained")
        yield figure, figure.add_subplot()


def _panel(figure: Figure, axes: Axes, name: str, title: str) -> Panel:
    axes.set_title(textwrap.fill(title, TITLE_WIDTH))
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Panel(name, title, _element(file.getvalue(), name, title))


def _element(text: str, name: str, title: str) -> str:
    """What matplotlib wrote, as an element that can stand in a page beside others."""
    svg = text[text.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)  # it would hold for the whole page
    svg = re.sub(r' id="(?!\w*[0-9a-f]{10}")[^"]*"', "", svg)  # the names of groups, the same in each panel
    svg = re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", svg)
    svg = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box, "matplotlib writes a viewBox"
    opening = (
        f'<svg class="panel" data-panel="{escape(name)}" xmlns="http://www.w3.org/2000/svg"'
        f' xmlns:xlink="http://www.w3.org/1999/xlink" {box[0]} role="img" aria-label="{escape(title)}"'
        f' stroke-linejoin="round" fill="currentColor">\n <title>{escape(title)}</title>'
    )
    return with_variables(re.sub(r"^<svg.*?>", lambda _: opening, svg, count=1, flags=re.S)).strip() + "\n"


def standalone(panels: Sequence[Panel], title: str) -> str:
    """An SVG file with the panels side by side, on a background of its own."""
    sizes = [tuple(map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', panel.svg)[0])) for panel in panels]
    width = f"{sum(size[0] for size in sizes) + 2 * EDGE:g}"
    height = f"{max(size[1] for size in sizes) + 2 * EDGE:g}"
    called = escape(title)
    style = f"svg{{--font:sans-serif;color:var(--ink)}}\n{rules('svg')}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-EDGE} {-EDGE} {width} {height}" width="{width}"',
        f' height="{height}" role="img" aria-label="{called}">\n<title>{called}</title>\n<style>{style}</style>\n',
        f'<rect x="{-EDGE}" y="{-EDGE}" width="{width}" height="{height}" style="fill:var(--paper)"/>\n',
    ]
    left = 0.0
    for panel, size in zip(panels, sizes):
        place = f'<svg x="{left:g}" width="{size[0]:g}" height="{size[1]:g}"'
        parts.append(panel.svg.replace("<svg", place, 1))
        left += size[0]
    return "".join([*parts, "</svg>\n"])


def _around(value: Spread) -> list[list[float]]:
    """An error bar from quartile to quartile."""
    return [[value.median - value.low], [value.high - value.median]]


def _wrapped(label: str) -> str:
    """A cell's name in two lines where it would take half of the panel."""
    return label if len(label) <= 16 else label.replace(":", ":\n")


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [_wrapped(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def bars(name: str, title: str, unit: str, rows: Sequence[Row]) -> Panel:
    """A bar a row, from 0, with error bars from quartile to quartile."""
    with _canvas(name, 70 + ROW * len(rows)) as (figure, axes):
        for place, row in enumerate(rows):
            axes.barh(place, row.value.median, 0.66, color=row.colour.light)
            axes.errorbar(row.value.median, place, xerr=_around(row.value), color="#000000", linewidth=1)
            axes.annotate(row.note, (row.value.high, place), (5, 0), textcoords="offset points", va="center")
        _rows(axes, [row.label for row in rows])
        ends = [row.value.high for row in rows]
        axes.set_xlim(min(0, *(row.value.low for row in rows)), max(0, *ends) * 1.45)  # room for the notes
        axes.set_xlabel(unit)
        return _panel(figure, axes, name, title)


def dots(name: str, title: str, unit: str, labels: Sequence[str], kinds: Sequence[Line]) -> Panel:
    """A row a label, in it a dot of each kind (place: index of the label), over a logarithmic scale."""
    with _canvas(name, 95 + (ROW + 4) * len(labels)) as (figure, axes):
        for kind in kinds:
            for place, value in kind.points:
                axes.errorbar(
                    value.median,
                    place,
                    xerr=_around(value),
                    fmt=kind.colour.marker,
                    markersize=MARKER * kind.colour.weight,
                    color=kind.colour.light,
                    label=kind.label if place == kind.points[0][0] else None,
                )
        for place in range(len(labels)):
            axes.axhline(place, color="#000000", alpha=0.12, linewidth=0.8, zorder=0)
        _rows(axes, labels)
        axes.set_xscale("log")
        _plain_ticks(axes, "x", [value for kind in kinds for _, value in kind.points])
        axes.set_xlabel(unit)
        _legend(figure)
        return _panel(figure, axes, name, title)


def lines(
    name: str, title: str, unit: str, series: Sequence[Line], *, across: str, tick: Callable[[float], str]
) -> Panel:
    """A line a cell, both scales logarithmic; `across` says what the places are, `tick` names one."""
    places = sorted({place for line in series for place, _ in line.points})
    with _canvas(name, 265) as (figure, axes):
        for line in series:
            values = [value for _, value in line.points]
            around = [[v.median - v.low for v in values], [v.high - v.median for v in values]]
            axes.errorbar(
                [place for place, _ in line.points],
                [v.median for v in values],
                yerr=around,
                fmt=f"{line.colour.marker}-",
                markersize=MARKER * line.colour.weight,
                linewidth=STROKE * line.colour.weight,
                color=line.colour.light,
                label=line.label,
            )
        axes.set_xscale("log", base=2)
        shown = places if len(places) <= 8 else places[:: (len(places) + 7) // 8]
        axes.set_xticks(shown, [tick(place) for place in shown])
        axes.minorticks_off()
        axes.set_xlabel(across)
        axes.set_ylabel(unit)
        axes.set_yscale("log")
        _plain_ticks(axes, "y", [value for line in series for _, value in line.points])
        _legend(figure)
        return _panel(figure, axes, name, title)


def distribution(name: str, title: str, unit: str, series: Sequence[Line]) -> Panel:
    """A line a cell through percentiles (places, in percent), each nine as far from the last as the one before."""
    places = sorted({place for line in series for place, _ in line.points})

    def height(percent: float) -> float:
        return 100 / (100 - percent)

    with _canvas(name, 265) as (figure, axes):
        for line in series:
            values = [value for _, value in line.points]
            around = [[v.median - v.low for v in values], [v.high - v.median for v in values]]
            axes.errorbar(
                [v.median for v in values],
                [height(place) for place, _ in line.points],
                xerr=around,
                fmt=f"{line.colour.marker}-",
                markersize=MARKER * line.colour.weight,
                linewidth=STROKE * line.colour.weight,
                color=line.colour.light,
                label=line.label,
            )
        axes.set_yscale("log")
        shown = [place for place in places if place >= 50]  # labels of lower ones would lie upon each other
        axes.set_yticks([height(place) for place in shown], [f"{place:g} %" for place in shown])
        axes.minorticks_off()
        axes.set_xscale("log")
        _plain_ticks(axes, "x", [value for line in series for _, value in line.points])
        axes.set_xlabel(unit)
        axes.set_ylabel("requests done by then")
        _legend(figure)
        return _panel(figure, axes, name, title)


def stacks(name: str, title: str, unit: str, rows: Sequence[Row], parts: Sequence[Line]) -> Panel:
    """A bar a row, made of the parts (place: index of the row); the row's own value gives error bar and note."""
    with _canvas(name, 105 + ROW * len(rows)) as (figure, axes):
        ends = [0.0] * len(rows)
        for part in parts:
            widths = [0.0] * len(rows)
            for place, value in part.points:
                widths[int(place)] = value.median
            axes.barh(range(len(rows)), widths, 0.66, left=ends, color=part.colour.light, label=part.label)
            ends = [end + width for end, width in zip(ends, widths)]
        for place, row in enumerate(rows):
            axes.errorbar(row.value.median, place, xerr=_around(row.value), color="#000000", linewidth=1)
            right = max(row.value.high, ends[place])
            axes.annotate(row.note, (right, place), (5, 0), textcoords="offset points", va="center")
        _rows(axes, [row.label for row in rows])
        axes.set_xlim(0, max(*ends, *(row.value.high for row in rows)) * 1.25)
        axes.set_xlabel(unit)
        _legend(figure)
        return _panel(figure, axes, name, title)


def _legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3 if max(map(len, labels)) < 12 else 2)


def _plain_ticks(axes: Axes, which: str, values: Sequence[Spread]) -> None:
    """Marks of a logarithmic scale as plain numbers, more of them where it spans little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    low, high = min(value.low for value in values), max(value.high for value in values)
    axis = axes.xaxis if which == "x" else axes.yaxis
    subs = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}" if value >= 10000 else f"{value:.10g}"))
    axis.set_minor_formatter(NullFormatter())
