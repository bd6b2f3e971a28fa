"""Bar charts with matplotlib, each an SVG image in a data URI. matplotlib is imported only when one is drawn."""

import base64
import io
import re
import textwrap
from collections.abc import Mapping

from .statistics import Spread

COLUMNS = 2  # panels side by side
WIDTH = 6.0  # inches, of a panel
TITLE = 45  # characters in a line over a panel
STYLE = "seaborn-v0_8-whitegrid"  # comes with matplotlib
# Of variants; the colours are those of Okabe and Ito, Color Universal Design, 2008.
GREY, OTHER = "#9a9a9a", "#009e73"
COLOURS = {
    "base": "#e69f00",
    "series": "#0072b2",
    **dict.fromkeys(("raw", "linear", "verity", "api", "library"), GREY),
}
Panel = dict[str, tuple[Spread, str]]  # a bar's value, and the text behind it, by label: "series:both"


def bars(panels: Mapping[str, Panel], unit: str) -> str:
    """A panel of horizontal bars, with their quartiles, for each title."""
    from matplotlib import style  # noqa: PLC0415  (loading it takes a second)
    from matplotlib.figure import Figure  # noqa: PLC0415

    style.use(STYLE)
    titles = ["\n".join(textwrap.wrap(title, TITLE)) for title in panels]
    columns = min(COLUMNS, len(titles))
    rows = -(-len(titles) // columns)
    over = 0.16 * (1 + max(title.count("\n") for title in titles))
    height = 0.7 + 0.24 * max(map(len, panels.values())) + over
    made = Figure(figsize=(columns * WIDTH, rows * height), layout="constrained")
    axes = list(made.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[len(titles) :]:
        axis.remove()
    for axis, title, panel in zip(axes, titles, panels.values()):
        values = [value for value, _ in panel.values()]
        errors = [[it.median - it.low for it in values], [it.high - it.median for it in values]]
        colours = [COLOURS.get(re.split("[:+]", label)[0], OTHER) for label in panel]
        places = range(len(values))
        axis.barh(places, [it.median for it in values], xerr=errors, color=colours, ecolor="#333333", capsize=2)
        axis.set_title(title)
        axis.set_yticks(places, list(panel))
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.set_xlabel(unit)
        axis.set_xlim(0, 1.45 * max(it.high for it in values))
        for place, (value, text) in enumerate(panel.values()):
            axis.annotate(text, (value.high, place), xytext=(4, 0), textcoords="offset points", va="center")
    sink = io.BytesIO()
    made.savefig(sink, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(sink.getvalue()).decode()}"
