"""The report: whole, readable on a phone, by day and by night; what it lacks is said."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic
from browser import BROWSER, DARK, LIGHT, contrast, faults, look, screenshot
from PIL import Image
from synthetic import POSTING, measurement

from dmcrypt_inline.bench.inguest.measurements import RAW, to_json
from dmcrypt_inline.commands import cli
from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import build_dir
from dmcrypt_inline.report import pages, tables
from dmcrypt_inline.report.palette import COLOURS, INK, PAPER, Colour

CHARTS = (
    *("w1", "w2-throughput", "w2-iops", "w2-latency", "w3-schedulers", "w3-requests", "w4-distribution", "w4-added"),
    *("w5-throughput", "w5-p99", "w5-cost", "curves-queue-depth-throughput", "curves-queue-depth-cpu"),
    *("curves-jobs-throughput", "curves-jobs-cpu", "curves-block-sizes-throughput", "curves-block-sizes-cpu"),
)
WINDOWS = [(width, scheme) for width in (1280, 390) for scheme in (LIGHT, DARK)]


@pytest.fixture(scope="module")
def made() -> pages.Texts:
    """The report of everything there can be."""
    return pages.build(synthetic.results())


@pytest.fixture(scope="module")
def small() -> str:
    """The page of one workload, which is drawn quickly."""
    return pages.build(synthetic.results(synthetic.w1())).html


def test_a_counting_clock_is_named() -> None:
    results = synthetic.results(synthetic.w1())
    assert "time" not in dict(pages.facts(results))
    counted = replace(results, environment={**synthetic.ENVIRONMENT, "accel": "icount"})
    assert "each instruction" in dict(pages.facts(counted))["time"]


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_a_browser_shows_every_chart(made: pages.Texts, tmp_path: Path, width: int, scheme: str) -> None:
    assert shutil.which(BROWSER), f"install the Debian packages {' '.join(host.PACKAGES['report'])} to run this test"
    seen = look(made.html, tmp_path, width, scheme)
    assert seen["width"] == width
    assert faults(seen, CHARTS) == []
    night = contrast(seen["colours"][1], "#000000") < 2
    assert night == (scheme == DARK)


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_the_picture_is_as_bright_as_it_ought_to_be(small: str, tmp_path: Path, width: int, scheme: str) -> None:
    with Image.open(screenshot(small, tmp_path, width, scheme)) as picture:
        assert picture.width == width
        grey = picture.convert("L").resize((50, 50)).tobytes()
        colours = picture.convert("RGB").getcolors(1 << 24)
        assert colours is not None
        assert len(colours) > 50
    assert (sum(grey) / len(grey) < 80) if scheme == DARK else (sum(grey) / len(grey) > 200)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (r'<figure id="w1"', '<figure id="w9"', "the charts are"),
        (r'<svg class="panel"', '<svg class="panel" style="display:none"', "is not there"),
        (r"<svg class=", '<svg style="width:2000px;max-width:none" class=', "wide in a window"),
        (r"<h1>", '<h1 style="position:relative;left:300px;overflow:hidden">', "sticks out"),
        (r"color: var\(--ink\);", "color: #999;", "can hardly be read"),
        (r"<text ", '<text fill="#123456" ', "in another colour"),
        (r"<text [^>]*>", '<text style="font-size:40px" x="300" y="30">', "cuts off"),
        (r"<text [^>]*>", '<text style="font-size:3px" x="30" y="30">', "has text of"),
    ],
)
def test_what_is_wrong_with_a_page_is_seen(small: str, tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert faults(look(small, tmp_path, 390, LIGHT), ["w1"]) == []
    broken, number = re.subn(old, new, small, count=1)
    assert number
    assert any(expected in fault for fault in faults(look(broken, tmp_path, 390, LIGHT), ["w1"]))


def test_the_page_needs_nothing_beside_itself(made: pages.Texts) -> None:
    assert not re.search(r"<(script|link|img|iframe|object)\b|\bsrc=|@import|url\((?!#)|href=\"(?!#)", made.html)


def test_every_id_is_there_once_and_every_reference_leads_somewhere(made: pages.Texts) -> None:
    ids = re.findall(r'\bid="([^"]*)"', made.html)
    assert sorted(ids) == sorted(set(ids))
    references = set(re.findall(r'(?:url\(|href=")#([^)"]*)', made.html))
    assert references
    assert references <= set(ids)


def test_what_was_not_measured_is_said() -> None:
    made = pages.build(synthetic.results(synthetic.w1(), cut_short="out of time"))
    for workload in ("W2", "W3", "W4", "W5", "curves"):
        assert f"{workload} was not measured in this run." in made.html
        assert f"{workload} was not measured in this run." in made.markdown
    assert "W1 was not measured" not in made.html
    assert "cut short: out of time" in made.html
    assert "cut short: out of time" in made.markdown
    assert re.findall(r'<figure id="([^"]*)"', made.html) == ["w1"]


def test_a_cell_without_counterpart_has_no_ratio() -> None:
    only = [measurement(POSTING, variant, "both") for variant in ("mine", "series")]
    ((_, rows),) = tables.ratios(synthetic.results(only), "W1").groups
    assert [row[0] for row in rows] == ["mine:both", "series:both"]
    assert {row[1:4] for row in rows} == {("-", "", "-")}
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
    assert cells[""] == "read, 4k"
    assert re.fullmatch(r"6\.\d\d \(6\.\d\d to 6\.\d\d\)", cells["series:both"])
    assert re.fullmatch(r"0\.99 \(.*\) =", cells["series:default"])
    assert len(made.markdown) < 16000  # it goes into a mail
    assert "No CPU at all" in made.markdown


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


@pytest.mark.parametrize("colour", COLOURS, ids=lambda colour: colour.name)
def test_colours_can_be_told_from_the_paper(colour: Colour) -> None:
    assert contrast(colour.light, PAPER[0]) >= 3
    assert contrast(colour.dark, PAPER[1]) >= 3
    assert contrast(INK[0], PAPER[0]) >= 7 <= contrast(INK[1], PAPER[1])


def test_the_last_results_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["report"]) == 1
    assert "make bench TARGET=linux-5.8" in capsys.readouterr().err
    bench = build_dir("linux-5.8") / "bench"
    bench.mkdir()
    (bench / "quick.json").write_text(to_json(synthetic.results(synthetic.w4())))
    assert cli.main(["report"]) == 0
    page, summary = (build_dir("linux-5.8") / "report" / name for name in ("report.html", "summary.md"))
    assert 'id="w4-added"' in page.read_text()
    assert "## W4" in summary.read_text()
    assert str(page) in capsys.readouterr().out


@pytest.mark.parametrize(("target", "status"), [("running", 0), ("../x", 1), ("", 1)])
def test_a_report_lies_where_its_results_belong(target: str, status: int, tmp_path: Path) -> None:
    other = {**synthetic.ENVIRONMENT, "target": target}
    (tmp_path / "a.json").write_text(to_json(replace(synthetic.results(synthetic.w4()), environment=other)))
    assert cli.main(["report", "--results", str(tmp_path / "a.json")]) == status
    assert status or (build_dir(target) / "report" / "report.html").exists()
