"""demo.py: what the demonstration says of its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
import synthetic

from dmcrypt_inline.bench.inguest.measurements import Results
from dmcrypt_inline.report import demo, figures, tables


def measured(speed: float) -> Results:
    """A run of the demonstration's plan in which the series is `speed` times as fast as the base's default path."""
    cells = []
    for cell in demo.PLAN.cells:
        variant = {"queue": "series"}.get(cell.kind, cell.kind)
        made = synthetic.measurement(cell.load, variant, cell.mode)
        base = synthetic.measurement(cell.load, "base", "default")
        times = speed * base.samples[0].ios / made.samples[0].ios if variant == "series" else 1.0
        cells.append(synthetic.measurement(cell.load, variant, cell.mode, times))
    return synthetic.results(cells)


@pytest.mark.parametrize(("speed", "verdicts"), [(7.5, {"kept"}), (6.5, {"kept", "MISSED"}), (0.9, {"MISSED"})])
def test_figures_are_held_against_what_is_promised(speed: float, verdicts: set[str]) -> None:
    said = demo.judge(measured(speed))
    assert len(said) == len(demo.PROMISES)
    assert {line.partition(":")[0] for line in said} == verdicts


def test_what_the_rounds_do_not_tell_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    over = tables.over
    monkeypatch.setattr(tables, "over", lambda *given: replace(over(*given), interval=None))  # type: ignore[type-var]
    assert [line.partition(":")[0] for line in demo.judge(measured(0.9))] == ["MISSED"] * 2 + ["cannot tell"] * 2


def test_the_plan_has_all_that_the_table_shows() -> None:
    assert "series, default" in figures.texts(measured(7.0)).cover
