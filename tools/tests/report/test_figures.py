"""The figures of README and cover letters: made from kept results, and found out when they are not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import synthetic
from synthetic import write

from dmcrypt_inline.bench.inguest.measurements import Results
from dmcrypt_inline.commands import cli
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import REPO
from dmcrypt_inline.report import figures
from dmcrypt_inline.trees import mails
from dmcrypt_inline.trees.targets import TARGETS


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """README and cover letter as they are, to be written to; no results are kept yet."""
    for name in ("README.md", "cover-letter.txt"):
        shutil.copy(REPO / name, tmp_path)
    monkeypatch.setattr(figures, "REPO", tmp_path)
    monkeypatch.setattr(figures, "README", tmp_path / "README.md")
    monkeypatch.setattr(figures, "FIGURES", tmp_path / "tools" / "figures")
    monkeypatch.setattr(figures, "CHART", tmp_path / "tools" / "figures" / "w1.svg")
    (tmp_path / "tools").mkdir()
    target = replace(TARGETS["linux-5.8"], cover=tmp_path / "cover-letter.txt")
    monkeypatch.setattr(figures, "TARGETS", {"linux-5.8": target})
    monkeypatch.setattr("dmcrypt_inline.trees.targets.TARGETS", {"linux-5.8": target})
    return tmp_path


W1 = synthetic.of_plan("w1")
MODES = ("default", "no_read", "no_write", "both")


@pytest.fixture
def written(copies: Path) -> Path:
    """The same, with the figures of W1."""
    assert cli.main(["figures", "--results", write(copies / "run.json", synthetic.results(W1))]) == 0
    return copies


def test_figures_are_written_and_then_fresh(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["figures", "--check"]) == 0
    assert cli.main(["figures"]) == 0
    assert capsys.readouterr().out.count(": as it was") == 3
    readme, cover = (written / "README.md").read_text(), (written / "cover-letter.txt").read_text()
    assert "| both | 118 | 6.37 | 119 | 6.54 |" in readme
    assert "\nboth                    118    6.37     119    6.54\n" in cover
    assert "| this queue, default path | 18 | 0.99 = | 18 | 0.99 = |" in readme
    assert "\nseries, default          18    0.99=     18    0.99=\n" in cover
    assert "no difference that these rounds can tell" in cover
    assert "(tools/figures/w1.svg)" in readme
    assert "Linux 0.0.0-synthetic (tcg), 6 rounds" in readme
    for pattern, name, text in (
        (figures.IN_README, "README.md", readme),
        (figures.IN_COVER, "cover-letter.txt", cover),
    ):
        assert pattern.sub("", text) == pattern.sub("", (REPO / name).read_text())
    assert max(map(len, figures.IN_COVER.findall(cover)[0].splitlines())) <= 72
    patches = [mails.parse_mail(path.read_text()) for path in sorted((REPO / "patches").glob("*.patch"))]
    summaries = [patch.summary for patch in patches if not mails.adds_selftests(patch)]
    assert mails.cover_problems(cover, summaries) == []


def test_counted_instructions_stand_beside_the_times(written: Path) -> None:
    environment = {**synthetic.ENVIRONMENT, "accel": "icount"}
    cells = [synthetic.measurement(c.load, c.variant, c.mode, 1.5 if c.mode == "both" else 1.0) for c in W1]
    counted = replace(synthetic.results(cells), environment=environment)
    assert cli.main(["figures", "--results", write(written / "counted.json", counted)]) == 0
    assert cli.main(["figures", "--check"]) == 0
    readme, cover = (written / "README.md").read_text(), (written / "cover-letter.txt").read_text()
    assert "| both | 118 | 6.37 | 119 | 6.54 | 9.55 | 9.81 |" in readme
    assert "instructions of one CPU: Linux 0.0.0-synthetic (icount), 6 rounds" in readme
    block = figures.IN_COVER.findall(cover)[0].splitlines()
    assert max(map(len, block)) <= 72
    assert block[0].split() == ["read", "write"] * 2
    assert ["both", "118", "6.37", "119", "6.54", "9.55", "9.81"] in [line.split() for line in block]
    (written / "tools" / "figures" / "linux-5.8.icount.json").unlink()
    assert cli.main(["figures", "--check"]) == 1


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("README.md", "| 6.37 |", "| 9.99 |"),
        ("cover-letter.txt", "    6.37", "    9.99"),
        ("tools/figures/w1.svg", "6.37×", "9.99×"),
        ("tools/figures/w1.svg", "", ""),
        ("tools/figures/linux-5.8.json", '"bytes": ', '"bytes": 1'),
    ],
)
def test_a_stale_figure_is_found(
    written: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str
) -> None:
    text = (written / name).read_text()
    assert old in text
    (written / name).write_text(text.replace(old, new, 1))
    if not old:
        (written / name).unlink()
    capsys.readouterr()
    assert cli.main(["figures", "--check"]) == 1
    said = capsys.readouterr().out
    assert " is not what tools/figures/linux-5.8.json (and what lies beside it) says: run tools/dmcrypt-inline" in said
    assert name.endswith(".json") or (said.startswith(name) and len(said.splitlines()) == 1)


def test_fixes_are_compared_mode_by_mode(copies: Path) -> None:
    target = replace(TARGETS["linux-7.3-fixes"], cover=copies / "fixes.txt")
    target.cover.write_text("Cost\n----\n\n read write\nold\n\nTests\n")
    loads = dict.fromkeys(cell.load for cell in W1)
    cells = [synthetic.measurement(load, "base", mode) for load in loads for mode in MODES]
    cells += [synthetic.measurement(load, "series", mode, 1 + (mode == "both") / 4) for load in loads for mode in MODES]
    [text] = figures.wanted(target, [synthetic.results(cells)]).values()
    assert text.startswith("Cost\n----\n\n")
    assert text.endswith("\n\nTests\n")
    lines = text.splitlines()[3:]
    assert [line.split() for line in lines[:2]] == [["read", "write"] * 3, ["4k", "4k", "64k", "64k", "1M", "1M"]]
    rows = {line.split()[0]: line.split()[1:] for line in lines[2:6]}
    assert list(rows) == ["default", "no_read_workqueue", "no_write_workqueue", "both"]
    assert all(1.2 < float(figure) < 1.3 for figure in rows["both"])
    assert all(0.95 < float(figure.rstrip("=")) < 1.05 for figure in rows["default"])
    assert max(map(len, lines)) <= 72
    with pytest.raises(UserError, match="series:both cannot be compared with base:both"):
        figures.fixes(synthetic.results([cell for cell in cells if (cell.variant, cell.mode) != ("base", "both")]))


def test_the_chart_is_a_file_of_its_own() -> None:
    text = figures.texts(synthetic.results(W1)).chart
    assert figures.texts(synthetic.results(W1)).chart == text  # the same on every run
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    for name in ("grey", "blue", "font", "paper", "ink"):
        assert f"var(--{name})" in text
        assert f"--{name}:" in text


@pytest.mark.parametrize(
    ("results", "why"),
    [
        (synthetic.results(W1, cut_short="no time"), "was cut short"),
        (synthetic.results(synthetic.of_plan("w2")), "no W1 at 4k"),
        (synthetic.results(replace(c, samples=c.samples[:4]) for c in W1), "cells of 4 rounds"),
        (synthetic.results([c for c in W1 if c.mode != "both"]), "have no series:both"),
        (synthetic.results([c for c in W1 if c.variant != "base"]), "have no base:default"),
        (replace(synthetic.results(), environment={**synthetic.ENVIRONMENT, "target": "x"}), "results of x"),
    ],
)
def test_results_that_will_not_do_change_nothing(
    copies: Path, capsys: pytest.CaptureFixture[str], results: Results, why: str
) -> None:
    before = (copies / "README.md").read_text()
    assert cli.main(["figures", "--results", write(copies / "run.json", results)]) == 1
    assert why in capsys.readouterr().err
    assert (copies / "README.md").read_text() == before
    assert not figures.measured()


def test_without_results_the_way_to_them_is_told(
    copies: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["figures"]) == 1
    assert "tools/dmcrypt-inline figures --results FILE" in capsys.readouterr().err


def test_a_file_without_a_place_for_the_table_is_refused(copies: Path) -> None:
    target = replace(TARGETS["linux-5.8"], cover=copies / "cover-letter.txt")
    (copies / "cover-letter.txt").write_text("nothing\n")
    with pytest.raises(UserError, match="has no place, or several"):
        figures.wanted(target, [synthetic.results(W1)])
