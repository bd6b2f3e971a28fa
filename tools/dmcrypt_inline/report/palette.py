"""The colours of charts, for light and dark backgrounds, told apart by colour-blind readers.

The hues are those of Okabe and Ito (Color Universal Design, 2008), made darker for
white and lighter for black so that each has a contrast of at least 3 to 1 there
(WCAG 2.1, 1.4.11). Lines also have markers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
CELLS: Mapping[str, Colour] = {
    "raw": GREY,
    "base:default": VERMILION,
    "series:default": AMBER,
    "series:same_cpu": PURPLE,
    "series:submit_from_crypt_cpus": BROWN,
    "series:no_read": SKY,
    "series:no_write": GREEN,
    "series:both": BLUE,
}


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
