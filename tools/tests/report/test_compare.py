"""compare A B: only ratios within a boot count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import synthetic
from synthetic import POSTING, measurement, write

from dmcrypt_inline.bench.inguest.measurements import RAW, Measurement, Results
from dmcrypt_inline.bench.inguest.stats import THROUGHPUT
from dmcrypt_inline.commands import cli
from dmcrypt_inline.report.compare import rows

CELLS = ((RAW, RAW), ("base", "default"), ("series", "default"), ("series", "both"))


def run(machine: float = 1.0, both: float = 1.0, rounds: int = 6) -> Results:
    """A boot on a machine that is so many times as fast, where "both" is so many times as fast again."""
    load = replace(POSTING, device="brd")
    cells: list[Measurement] = []
    for variant, mode in CELLS:
        cells.append(measurement(load, variant, mode, machine * (both if mode == "both" else 1.0), rounds))
    return synthetic.results(cells)


def test_a_faster_machine_is_no_difference() -> None:
    found = rows(run(), run(machine=3.0), THROUGHPUT)
    assert {row.cell: row.verdict(THROUGHPUT) for row in found} == dict.fromkeys(
        ("base:default", "series:default", "series:both"), "no difference"
    )
    assert [row.reference for row in found] == ["raw", "base:default", "base:default"]


def test_a_faster_driver_is_told() -> None:
    found = {row.cell: row for row in rows(run(), run(machine=0.5, both=1.2), THROUGHPUT)}
    assert found["series:both"].verdict(THROUGHPUT) == "faster"
    assert found["series:both"].times.spread.median == pytest.approx(1.2, rel=0.03)
    assert found["series:default"].verdict(THROUGHPUT) == "no difference"


def test_too_few_rounds_tell_nothing() -> None:
    (row,) = [row for row in rows(run(rounds=2), run(both=2.0, rounds=2), THROUGHPUT) if "both" in row.cell]
    assert row.verdict(THROUGHPUT) == "too few rounds to tell: 2 and 2"


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path / "a.json", run())
    changed = replace(run(both=2.0), environment={**synthetic.ENVIRONMENT, "accel": "kvm"}, cut_short="interrupted")
    assert cli.main(["compare", first, write(tmp_path / "b.json", changed)]) == 0
    printed = capsys.readouterr().out
    assert "W1: read, 4k, null cipher, sectors of 512, queue depth 1, 1 job, brd" in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("  series:both")]
    assert line.endswith("faster")
    assert "3 cells, 1 with a difference" in printed
    assert "note: accel differs: A tcg, B kvm" in printed
    assert "note: B was cut short: interrupted" in printed
    assert "MiB/s" not in printed  # no absolute figure


def test_nothing_in_common_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = synthetic.results([measurement(replace(POSTING, jobs=4), *who) for who in CELLS])
    assert cli.main(["compare", write(tmp_path / "a.json", run()), write(tmp_path / "b.json", other)]) == 1
    assert "no cell in common" in capsys.readouterr().err
