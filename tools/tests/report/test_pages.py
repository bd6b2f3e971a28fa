"""The report: whole, readable on a phone, by day and by night; only what was measured is in it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import POSTING, measurement, write

from dmcrypt_inline.bench.inguest.measurements import RAW
from dmcrypt_inline.commands import cli
from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import build_dir
from dmcrypt_inline.common.run import run
from dmcrypt_inline.report import charts, pages, svg, tables

BROWSER = "chromium-headless-shell"  # of the Debian package of that name; see host.PACKAGES
LIGHT, DARK = "1", "0"  # what Chromium calls them in preferredColorScheme

# Only for the test: the page itself has no script. Sizes are in CSS pixels.
PROBE = """<script>
window.addEventListener("load", () => {
  const root = document.documentElement, wide = root.clientWidth;
  const sticks = each => !each.closest(".scroll") && each.getBoundingClientRect().right > wide + 1;
  const panel = svg => {
    const box = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll("text")];
    const shapes = [...svg.querySelectorAll("path, use")].map(each => each.getBoundingClientRect())
      .filter(each => each.width + each.height);
    const cut = each => {
      const own = each.getBoundingClientRect();
      return Math.min(own.left - box.left, box.right - own.right, own.top - box.top, box.bottom - own.bottom) < -1;
    };
    return {
      name: svg.dataset.panel, small: box.width < 250 || box.height < 100 || shapes.length < 10,
      ink: [...new Set(texts.map(each => getComputedStyle(each).fill))],
      tiny: texts.some(each => each.getBoundingClientRect().height < 9),
      cut: texts.filter(cut).map(each => each.textContent.trim()),
    };
  };
  document.body.setAttribute("data-probe", JSON.stringify({
    width: wide, scroll: root.scrollWidth, paper: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    sticking: [...document.querySelectorAll("body *")].filter(sticks).map(each => each.outerHTML.slice(0, 80)),
    charts: [...document.querySelectorAll("figure.chart")].map(each => each.id),
    panels: [...document.querySelectorAll("figure.chart svg.panel")].map(panel),
  }));
});
</script>"""


@pytest.fixture(scope="module")
def made() -> pages.Texts:
    """The report of everything there can be."""
    return pages.build(synthetic.results())


def look(html: str, place: Path, width: int, scheme: str) -> dict[str, Any]:
    """What a browser without a window made of the page (see PROBE)."""
    page = place / "page.html"
    page.write_text(html.replace("</body>", f"{PROBE}</body>"))
    options = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={place / 'profile'}"]
    options += [f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={width},900", "--dump-dom"]
    said = run([BROWSER, *options, page.as_uri()], log=place / "browser.log", timeout=120).output
    found = re.search(r'data-probe="([^"]*)"', said)
    assert found, "the page was not loaded to its end"
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))


@pytest.mark.parametrize(("width", "scheme"), [(1280, LIGHT), (390, DARK)])
def test_a_browser_shows_every_chart(made: pages.Texts, tmp_path: Path, width: int, scheme: str) -> None:
    assert shutil.which(BROWSER), f"install the Debian packages {' '.join(host.PACKAGES['report'])} to run this test"
    seen = look(made.html, tmp_path, width, scheme)
    ink, paper = (rgb(each[scheme == DARK]) for each in (svg.INK, svg.PAPER))
    assert (seen["width"], seen["ink"], seen["paper"]) == (width, ink, paper)
    assert seen["scroll"] <= width
    assert seen["sticking"] == []
    assert seen["charts"] == [chart.name for chart in charts.CHARTS]
    for panel in seen["panels"]:
        assert (panel["ink"], panel["small"], panel["tiny"], panel["cut"]) == ([ink], False, False, []), panel


def test_the_page_needs_nothing_beside_itself(made: pages.Texts) -> None:
    assert not re.search(r"<(script|link|img|iframe|object)\b|\bsrc=|@import|url\((?!#)|href=\"(?!#)", made.html)
    ids = re.findall(r'\bid="([^"]*)"', made.html)
    assert sorted(ids) == sorted(set(ids))
    references = set(re.findall(r'(?:url\(|href=")#([^)"]*)', made.html))
    assert references
    assert references <= set(ids)


def test_only_what_was_measured_is_shown() -> None:
    made = pages.build(synthetic.results(synthetic.of_plan("quick"), cut_short="out of time"))
    assert re.findall(r'<section id="([^"]*)"', made.html) == ["environment", "W1"]
    assert re.findall(r'<a href="([^"]*)"', made.html) == ["#W1"]
    assert re.findall(r'<figure id="([^"]*)"', made.html) == ["w1"]
    assert re.findall("^## (..)", made.markdown, re.M) == ["W1"]
    for text in (made.html, made.markdown):
        assert "cut short: out of time" in text
        assert "No CPU at all" in text


def test_a_cell_without_counterpart_has_no_ratio() -> None:
    only = [measurement(POSTING, variant, "both") for variant in ("mine", "series")]
    table = tables.ratios(synthetic.results(only), "W1")
    assert table.columns == ("", "MiB/s")
    ((_, rows),) = table.groups
    assert [row[0] for row in rows] == ["mine:both", "series:both"]
    one = [measurement(POSTING, "base", "default"), *only, measurement(replace(POSTING, jobs=2), "mine", "both")]
    _, (_, rows) = tables.ratios(synthetic.results(one), "W1").groups
    assert rows[0][:3] == ("mine:both", "-", "")
    assert "series:both" in pages.build(synthetic.results(only)).html


def test_the_only_variant_is_compared_with_its_own_default_path() -> None:
    only = [measurement(POSTING, "running", mode) for mode in ("default", "both")]
    table = tables.ratios(synthetic.results(only), "W1")
    assert table.columns[1] == "× running:default"
    ((_, rows),) = table.groups
    assert rows[0][1] == "-"
    assert rows[1][2] == "faster"


def test_a_base_with_the_flags_is_compared_mode_by_mode(made: pages.Texts) -> None:
    assert "the base in the same mode" not in made.markdown + made.html
    cells = [measurement(POSTING, "base", mode) for mode in ("default", "both")]
    cells.append(measurement(POSTING, "series", "both", speed=1.25))
    fixed = pages.build(synthetic.results(cells))
    table = fixed.markdown.split("times that of the base in the same mode. ")[1].split("\n\n")[1]
    head, _, row = table.splitlines()
    assert "series:both" in head
    assert "| 1.2" in row
    assert "times that of the base in the same mode" in fixed.html


def test_the_summary_has_ratios_and_verdicts(made: pages.Texts) -> None:
    start = made.markdown.index("Throughput, times that of base:default.")
    head, _, line = made.markdown[start:].split("\n\n")[1].splitlines()[:3]
    cells = dict(zip(*([cell.strip() for cell in each.strip("|").split("|")] for each in (head, line))))
    assert cells[""] == "read"
    assert re.fullmatch(r"6\.\d\d \(6\.\d\d to 6\.\d\d\)", cells["series:both"])
    assert re.fullmatch(r"0\.99 \(.*\) =", cells["series:default"])
    assert len(made.markdown) < 16000  # it goes into a mail


def test_markup_in_a_name_stays_text() -> None:
    odd = replace(POSTING, device="<b>&")
    cells = [measurement(odd, *who) for who in ((RAW, RAW), ("base", "default"), ("<i>", "both"))]
    page = pages.build(synthetic.results(cells)).html
    assert "<b>&" not in page
    assert "<i>" not in page
    assert "&lt;i&gt;:both" in page


def test_results_without_a_mapping_are_refused() -> None:
    with pytest.raises(UserError, match="nothing to report"):
        pages.build(synthetic.results([measurement(POSTING, RAW, RAW)]))


def test_the_last_results_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report"]) == 1
    assert "make bench TARGET=linux-5.8" in capsys.readouterr().err
    bench = build_dir("linux-5.8") / "bench"
    bench.mkdir()
    write(bench / "quick.json", synthetic.results(synthetic.of_plan("quick")))
    assert cli.main(["report"]) == 0
    page, summary = (build_dir("linux-5.8") / "report" / name for name in ("report.html", "summary.md"))
    assert 'id="w1"' in page.read_text()
    assert "## W1" in summary.read_text()
    assert str(page) in capsys.readouterr().out


@pytest.mark.parametrize(("target", "status"), [("running", 0), ("../x", 1), ("", 1)])
def test_a_report_lies_where_its_results_belong(target: str, status: int, tmp_path: Path) -> None:
    results = synthetic.results([measurement(POSTING, "series", "both")])
    made = replace(results, environment={**synthetic.ENVIRONMENT, "target": target})
    assert cli.main(["report", "--results", write(tmp_path / "a.json", made)]) == status
    assert status or (build_dir(target) / "report" / "report.html").exists()
