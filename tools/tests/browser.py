"""A real browser without a window, and what it says about a page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

from dmcrypt_inline.common.run import run

BROWSER = "chromium-headless-shell"  # of the Debian package of that name; see host.PACKAGES
LIGHT, DARK = "1", "0"  # what Chromium calls them in preferredColorScheme

# Only for the test: the page itself has no script. Sizes are in CSS pixels.
PROBE = """<script>
window.addEventListener("load", () => {
  const root = document.documentElement, page = {width: root.clientWidth, scroll: root.scrollWidth};
  const style = getComputedStyle(document.body);
  page.colours = [style.color, style.backgroundColor];
  const sticks = each => !each.closest(".scroll") && each.getBoundingClientRect().right > root.clientWidth + 1;
  page.sticking = [...document.querySelectorAll("body *")].filter(sticks).map(each => each.outerHTML.slice(0, 80));
  page.charts = [...document.querySelectorAll("figure.chart")].map(figure => ({
    name: figure.id,
    panels: [...figure.querySelectorAll("svg.panel")].map(svg => {
      const box = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll("text")];
      return {
        name: svg.dataset.panel, width: box.width, height: box.height,
        shapes: [...svg.querySelectorAll("path, use")].filter(each => {
          const size = each.getBoundingClientRect(); return size.width + size.height > 0; }).length,
        ink: [...new Set(texts.map(each => getComputedStyle(each).fill))],
        smallest: Math.min(...texts.map(each => each.getBoundingClientRect().height)),
        cut: texts.filter(each => {
          const own = each.getBoundingClientRect();
          return own.left < box.left - 1 || own.right > box.right + 1
            || own.top < box.top - 1 || own.bottom > box.bottom + 1;
        }).map(each => each.textContent.trim()),
      };
    }),
  }));
  document.body.setAttribute("data-probe", JSON.stringify(page));
});
</script>"""


def _run(page: Path, width: int, scheme: str, what: str, height: int = 900) -> str:
    """Open the page; CommandError when there is no browser, or when it does not work here."""
    options: Sequence[str] = (
        *("--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={page.parent / 'profile'}"),
        *(f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={width},{height}", what),
    )
    return run([BROWSER, *options, page.as_uri()], log=page.parent / "browser.log", timeout=120).output


def look(html: str, place: Path, width: int, scheme: str) -> dict[str, Any]:
    """What the browser made of the page (see PROBE), in a window of this width."""
    page = place / "page.html"
    page.write_text(html.replace("</body>", f"{PROBE}</body>"))
    found = re.search(r'data-probe="([^"]*)"', _run(page, width, scheme, "--dump-dom"))
    assert found, "the page was not loaded to its end"
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


def screenshot(html: str, place: Path, width: int, scheme: str) -> Path:
    """The top of the page as a PNG."""
    page, picture = place / "page.html", place / f"{width}-{scheme}.png"
    page.write_text(html)
    _run(page, width, scheme, f"--screenshot={picture}", 2000)
    return picture


def contrast(first: str, second: str) -> float:
    """The contrast of two colours as WCAG 2.1 defines it, of #rrggbb or rgb(r, g, b)."""

    def luminance(colour: str) -> float:
        if colour.startswith("#"):
            parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
        else:
            parts = [int(number) for number in re.findall(r"\d+", colour)[:3]]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (part / 255 for part in parts)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def faults(seen: dict[str, Any], charts: Sequence[str]) -> list[str]:
    """What is wrong with a page that ought to have these charts."""
    found = []
    if seen["scroll"] > seen["width"]:
        found.append(f"the page is {seen['scroll']} wide in a window of {seen['width']}")
    found += [f"it sticks out: {each}" for each in seen["sticking"]]
    if contrast(*seen["colours"]) < 4.5:
        found.append(f"text can hardly be read: {seen['colours']}")
    if [chart["name"] for chart in seen["charts"]] != list(charts):
        found.append(f"the charts are {[chart['name'] for chart in seen['charts']]}")
    for chart in seen["charts"]:
        if not chart["panels"]:
            found.append(f"{chart['name']} has no panel")
        for panel in chart["panels"]:
            if panel["width"] < 250 or panel["height"] < 100 or panel["shapes"] < 10:
                found.append(f"{panel['name']} is not there: {panel}")
            if panel["ink"] != [seen["colours"][0]]:
                found.append(f"{panel['name']} has text in another colour than the page: {panel['ink']}")
            if panel["smallest"] < 9:
                found.append(f"{panel['name']} has text of {panel['smallest']:.1f} pixels")
            found += [f"{panel['name']} cuts off: {text}" for text in panel["cut"]]
    return found
