"""Panels of charts as SVG text: bars and lines. matplotlib is imported only when one is drawn.

A panel is narrow enough for a phone; wide pages put several side by side. Text stays
text, in the page's own font. Colours are style sheet variables, for light and dark
backgrounds. Their hues are those of Okabe and Ito (Color Universal Design, 2008),
made darker for white and lighter for black so that each has a contrast of at least
3 to 1 there (WCAG 2.1, 1.4.11). Lines also have markers of their own.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..bench.inguest.stats import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 360  # points, which are the SVG's own unit: about a phone's width in pixels
INCH = 72  # points
TITLE_WIDTH = 52  # characters that fit over a panel
EDGE = 8  # points around the panels of a file of its own
ROW = 21  # points, of one bar
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

PAPER = ("#ffffff", "#16191d")  # the backgrounds, light and dark
INK = ("#1c2126", "#e4e7ea")  # the text on them


@dataclass(frozen=True)
class Colour:
    """A colour by its name in style sheets, light and dark, and how lines of it are drawn.

    `marker` is matplotlib's; `weight` makes line and marker so many times as thick:
    what another line is expected to cover stays visible around it.
    """

    name: str
    light: str
    dark: str
    marker: str = "o"
    weight: float = 1.0


GREY = Colour("grey", "#6f7479", "#a3a9af", "s")
VERMILION = Colour("vermilion", "#cf5a00", "#ff8a3d", "o", 1.7)
AMBER = Colour("amber", "#a87400", "#f0b429", "v")
PURPLE = Colour("purple", "#b4568c", "#e590c2", "P")
BROWN = Colour("brown", "#7d5a3c", "#c6a283", "X")
SKY = Colour("sky", "#2788bd", "#74c8f7", "^")
GREEN = Colour("green", "#008a63", "#35d0a0", "<")
BLUE = Colour("blue", "#005f99", "#4b9fe3", "D")
COLOURS = (GREY, VERMILION, AMBER, PURPLE, BROWN, SKY, GREEN, BLUE)

# The cells that every run has; others take what is left, in their order.
SERIES = ("default", "same_cpu", "submit_from_crypt_cpus", "no_read", "no_write", "both")
CELLS = dict(zip(("raw", "base:default", *(f"series:{mode}" for mode in SERIES)), COLOURS))


def of_cells(names: Sequence[str]) -> dict[str, Colour]:
    """A colour for each of the cells; more than there are colours share them."""
    used = [CELLS[name] for name in names if name in CELLS]
    left = [colour for colour in COLOURS if colour not in used] or list(COLOURS)
    others = [name for name in names if name not in CELLS]
    extra = {name: left[place % len(left)] for place, name in enumerate(others)}
    return {name: CELLS.get(name) or extra[name] for name in names}


def with_variables(svg: str) -> str:
    """The colours of an SVG as style sheet variables: ink as the text's own, ours by name."""
    svg = re.sub(r"#000000", "currentColor", svg)
    for colour in COLOURS:
        svg = svg.replace(colour.light, f"var(--{colour.name})")
    return svg


def rules(selector: str) -> str:
    """The style sheet that gives the variables their values; dark only on a screen that is, never on paper."""

    def block(which: int) -> str:
        own = "".join(f"--{each.name}:{(each.light, each.dark)[which]};" for each in COLOURS)
        return f"{selector}{{--paper:{PAPER[which]};--ink:{INK[which]};{own}}}"

    return f"{block(0)}\n@media screen and (prefers-color-scheme:dark){{{block(1)}}}"


@dataclass(frozen=True)
class Row:
    """One bar: the cell, its value, and what is written at its end."""

    cell: str
    value: Spread
    note: str


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


def _panel(figure: Figure, axes: Axes, name: str, title: str) -> str:
    axes.set_title(textwrap.fill(title, TITLE_WIDTH))
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _element(file.getvalue(), name, title)


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


def standalone(panels: Sequence[str], title: str) -> str:
    """An SVG file with the panels side by side, on a background of its own."""
    sizes = [tuple(map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', panel)[0])) for panel in panels]
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
        parts.append(panel.replace("<svg", place, 1))
        left += size[0]
    return "".join([*parts, "</svg>\n"])


def _around(values: Sequence[Spread]) -> list[list[float]]:
    """Error bars from quartile to quartile."""
    return [[value.median - value.low for value in values], [value.high - value.median for value in values]]


def _wrapped(label: str) -> str:
    """A cell's name in two lines where it would take half of the panel."""
    return label if len(label) <= 16 else label.replace(":", ":\n")


def _rows(axes: Axes, cells: Sequence[str]) -> None:
    axes.set_yticks(range(len(cells)), [_wrapped(cell) for cell in cells])
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def bars(name: str, title: str, unit: str, rows: Sequence[Row]) -> str:
    """A bar a row, from 0, with error bars from quartile to quartile."""
    colours = of_cells([row.cell for row in rows])
    with _canvas(name, 70 + ROW * len(rows)) as (figure, axes):
        for place, row in enumerate(rows):
            axes.barh(place, row.value.median, 0.66, color=colours[row.cell].light)
            axes.errorbar(row.value.median, place, xerr=_around([row.value]), color="#000000", linewidth=1)
            axes.annotate(row.note, (row.value.high, place), (5, 0), textcoords="offset points", va="center")
        _rows(axes, [row.cell for row in rows])
        ends = [row.value.high for row in rows]
        axes.set_xlim(min(0, *(row.value.low for row in rows)), max(0, *ends) * 1.45)  # room for the notes
        axes.set_xlabel(unit)
        return _panel(figure, axes, name, title)


def stacks(name: str, title: str, unit: str, parts: Mapping[str, Sequence[float]], rows: Sequence[str]) -> str:
    """A bar a row, made of one value of each part; the sum stands at its end."""
    with _canvas(name, 95 + ROW * len(rows)) as (figure, axes):
        ends = [0.0] * len(rows)
        for (part, values), colour in zip(parts.items(), COLOURS):
            axes.barh(range(len(rows)), values, 0.66, ends, color=colour.light, label=part)
            ends = [end + value for end, value in zip(ends, values)]
        for place, end in enumerate(ends):
            axes.annotate(f"{end:.0f}", (end, place), (5, 0), textcoords="offset points", va="center")
        _rows(axes, rows)
        axes.set_xlim(0, max(ends) * 1.15)
        axes.set_xlabel(unit)
        figure.legend(loc="outside lower left", ncols=len(parts))
        return _panel(figure, axes, name, title)


def lines(
    name: str,
    title: str,
    unit: str,
    series: Mapping[str, Mapping[float, Spread]],
    *,
    across: str,
    tick: Callable[[float], str],
) -> str:
    """A line a cell over the places, both scales logarithmic; `across` says what places are, `tick` names one."""
    places = sorted({place for points in series.values() for place in points})
    colours = of_cells(list(series))
    with _canvas(name, 235 + 15 * ((len(series) + 1) // 2)) as (figure, axes):  # with the legend
        for cell, points in series.items():
            axes.errorbar(
                list(points),
                [value.median for value in points.values()],
                yerr=_around(list(points.values())),
                fmt=f"{colours[cell].marker}-",
                markersize=MARKER * colours[cell].weight,
                linewidth=STROKE * colours[cell].weight,
                color=colours[cell].light,
                label=cell,
            )
        axes.set_xscale("log", base=2)
        shown = places if len(places) <= 8 else places[:: (len(places) + 7) // 8]
        axes.set_xticks(shown, [tick(place) for place in shown])
        axes.minorticks_off()
        axes.set_xlabel(across)
        axes.set_ylabel(unit)
        axes.set_yscale("log")
        _plain_ticks(axes, [value for points in series.values() for value in points.values()])
        figure.legend(loc="outside lower left", ncols=2)
        return _panel(figure, axes, name, title)


def _plain_ticks(axes: Axes, values: Sequence[Spread]) -> None:
    """Marks of a logarithmic scale as plain numbers, more of them where it spans little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    low, high = min(value.low for value in values), max(value.high for value in values)
    subs = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.10g}" if value >= 10000 else f"{value:.10g}")
    )
    axes.yaxis.set_minor_formatter(NullFormatter())
