"""w1.py and demo.py: from fio's documents to ratios and verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from dmcrypt_inline.demo import judge, render
from dmcrypt_inline.stats import Spread
from dmcrypt_inline.w1 import BASELINE, CELLS, DIRECTIONS, MIB, summarise, throughput


def job(name: str, direction: str, speed: float, error: int = 0) -> dict[str, Any]:
    """One job as fio writes it, with the fields that are read."""
    sides = {side: {"bw_bytes": speed * MIB if side == direction else 0} for side in DIRECTIONS}
    return {"jobname": f"{name}:{direction}", "error": error, **sides}


def document(speeds: dict[str, float]) -> dict[str, Any]:
    """One fio document with the same speed (MiB/s) in both directions."""
    return {"jobs": [job(name, direction, speed) for name, speed in speeds.items() for direction in DIRECTIONS]}


def one_round(base: float, times: float) -> list[dict[str, Any]]:
    """A round in which everything of the series is `times` the base."""
    series = {cell: base * times for cell in CELLS if cell.startswith("series:")}
    return [document({"raw": 100.0, BASELINE: base}), document({"raw": 200.0, **series})]


def test_ratios_are_taken_within_a_round() -> None:
    cells = {(c.name, c.direction): c for c in summarise([one_round(10.0, 7.0), one_round(20.0, 7.0)])}
    both = cells["series:both", "write"]
    assert both.ratio == Spread(7.0, 7.0, 7.0)
    assert both.throughput.median == 105.0
    assert cells["raw", "read"].throughput.median == 150.0
    assert "series:both" in render(list(cells.values()))


@pytest.mark.parametrize("bad", [job("raw", "read", 5.0, error=5), job("raw", "read", 0.0)])
def test_a_failed_job_is_no_measurement(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="fio: job raw:read"):
        throughput({"jobs": [bad]})


def test_verdicts() -> None:
    assert all(verdict["kept"] for verdict in judge(summarise([one_round(10.0, 7.5)])))
    verdicts = {str(v["text"]).split(":")[0] for v in judge(summarise([one_round(10.0, 6.5)]))}
    assert verdicts == {"kept", "MISSED"}
