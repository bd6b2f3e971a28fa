"""Charts with matplotlib, each an SVG image in a data URI. matplotlib is imported only when one is drawn."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .statistics import Spread
from .tables import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2  # panels side by side
WIDTH = 6.0  # inches, of a panel
TITLE = 60  # characters in a line over a panel
STYLE: Any = {  # of type Any: matplotlib knows its keys by name
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.2,
    "legend.frameon": False,
}
# Okabe and Ito, Color Universal Design, 2008.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f7f7f")
GREY = "#9a9a9a"


@dataclass(frozen=True)
class Bar:
    """A bar with its quartiles, and the text behind it."""

    label: str
    value: Spread
    text: str
    colour: str = COLOURS[0]


def colour(place: int) -> str:
    """The colour of the series at this place."""
    return COLOURS[place % len(COLOURS)]


def bars(panels: Mapping[str, Sequence[Bar]], unit: str) -> str:
    """A panel of horizontal bars for each title."""
    longest = max(map(len, panels.values()))
    made, axes = _panels(list(panels), height=0.7 + 0.24 * longest)
    for axis, found in zip(axes, panels.values()):
        middles, errors = _with_errors([bar.value for bar in found])
        places = range(len(found))
        axis.barh(places, middles, xerr=errors, color=[bar.colour for bar in found], ecolor="#333333", capsize=2)
        axis.set_yticks(places, [bar.label for bar in found])
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.set_xlabel(unit)
        axis.set_xlim(0, 1.45 * max(bar.value.high for bar in found))
        for place, bar in enumerate(found):
            axis.annotate(bar.text, (bar.value.high, place), xytext=(4, 0), textcoords="offset points", va="center")
    return _uri(made)


def stacks(panels: Mapping[str, Mapping[str, Sequence[float]]], labels: Sequence[str], unit: str) -> str:
    """A panel of horizontal bars for each title, a bar a label, divided into named parts."""
    made, axes = _panels(list(panels), height=1.1 + 0.26 * len(labels))
    for axis, parts in zip(axes, panels.values()):
        begin = [0.0] * len(labels)
        for number, (name, values) in enumerate(parts.items()):
            axis.barh(labels, values, left=begin, label=name, color=colour(number))
            begin = [left + value for left, value in zip(begin, values)]
        for place, total in enumerate(begin):
            axis.annotate(figure(total), (total, place), xytext=(4, 0), textcoords="offset points", va="center")
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.set_xlim(0, 1.2 * max(begin))
        axis.set_xlabel(unit)
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=len(COLOURS), fontsize=8)
    return _uri(made)


def lines(panels: Mapping[str, Mapping[str, Mapping[float, Spread]]], across: str, unit: str) -> str:
    """A panel for each title, in it a line for each name, over numbers that double."""
    made, axes = _panels(list(panels), height=3.0)
    for axis, series in zip(axes, panels.values()):
        for number, (name, found) in enumerate(series.items()):
            places = sorted(found)
            middles, errors = _with_errors([found[place] for place in places])
            axis.errorbar(places, middles, yerr=errors, label=name, color=colour(number), marker="o", ms=4, capsize=2)
        axis.axhline(1, color=GREY, linewidth=1)
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted({place for found in series.values() for place in found}))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.set_xlabel(across)
        axis.set_ylabel(unit)
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=len(COLOURS), fontsize=8)
    return _uri(made)


def _with_errors(found: Sequence[Spread]) -> tuple[list[float], list[list[float]]]:
    """The medians, and their distances from the quartiles as matplotlib takes them."""
    return [it.median for it in found], [[it.median - it.low for it in found], [it.high - it.median for it in found]]


def _panels(titles: Sequence[str], height: float) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each title, `height` inches each besides the title."""
    import matplotlib as mpl  # noqa: PLC0415  (loading it takes a second)
    from matplotlib.figure import Figure  # noqa: PLC0415

    mpl.rcParams.update(STYLE)
    wrapped = ["\n".join(textwrap.wrap(title, TITLE)) for title in titles]
    columns = min(COLUMNS, len(titles))
    rows = -(-len(titles) // columns)
    over = 0.16 * (1 + max(title.count("\n") for title in wrapped))
    made = Figure(figsize=(columns * WIDTH, rows * (height + over)), layout="constrained")
    axes = list(made.subplots(rows, columns, squeeze=False).flat)
    for axis, title in zip(axes, wrapped):
        axis.set_title(title)
    for axis in axes[len(titles) :]:
        axis.remove()
    return made, axes[: len(titles)]


def _uri(made: Figure) -> str:
    sink = io.BytesIO()
    made.savefig(sink, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(sink.getvalue()).decode()}"
