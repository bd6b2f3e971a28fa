"""What the charts show: which cells, which values; how they look is tested with the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import synthetic
from synthetic import POSTING, measurement

from dmcrypt_inline.bench.inguest import labels
from dmcrypt_inline.bench.inguest.measurements import RAW, Load, Measurement, Results
from dmcrypt_inline.bench.inguest.stats import METRICS, values
from dmcrypt_inline.report import charts, svg
from dmcrypt_inline.report.cells import cells, groups, loads
from dmcrypt_inline.report.palette import COLOURS, of_cells
from dmcrypt_inline.report.svg import Line, Panel, Row

KIB = 1024
WHO = ((RAW, RAW), ("base", "default"), ("series", "both"))


def run(found: Sequence[Load]) -> Results:
    return synthetic.results([measurement(load, *who) for load in found for who in WHO])


class Asked:
    """What the drawing functions were asked to draw; they draw it all the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        for module, name in ((charts, "dots"), (charts, "distribution"), (charts, "stacks"), (charts, "lines")):
            monkeypatch.setattr(module, name, self._noting(getattr(svg, name)))

    def _noting(self, draw: Any) -> Any:
        def noted(*given: Any, **named: Any) -> Panel:
            self.calls.append(given)
            panel: Panel = draw(*given, **named)
            return panel

        return noted


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def one(results: Results, load: Load, variant: str, mode: str) -> Measurement:
    (found,) = [c for c in results.measurements if (c.load, c.variant, c.mode) == (load, variant, mode)]
    return found


@pytest.mark.parametrize(("size", "factor"), [(4 * KIB, 1), (64 * KIB, 16), (1024 * KIB, 256)])
def test_the_matrix_is_normalised_to_4k(asked: Asked, size: int, factor: int) -> None:
    load = replace(POSTING, workload="W2", block_sizes=(size, size))
    results = run([load])
    sample = one(results, load, "series", "both").samples[0]
    results = synthetic.results([replace(c, samples=c.samples[:1]) for c in results.measurements])
    for draw, expected in (
        (charts.w2_throughput, sample.throughput),
        (charts.w2_iops, sample.ios / sample.seconds * factor),
        (charts.w2_latency, sample.latency_us["p50"] / factor),
    ):
        assert draw(results) is not None
        _, _, _, rows, (kind,) = asked.calls.pop()
        assert rows == ["raw", "base:default", "series:both"]
        assert dict(kind.points)[2].median == pytest.approx(expected)
        assert kind.label == labels.size(size)


def test_the_raw_device_is_shown_with_every_cipher(asked: Asked) -> None:
    null = replace(POSTING, workload="W2")
    real = replace(null, cipher="aes-xts-plain64")
    results = synthetic.results([*run([null]).measurements, measurement(real, "series", "both")])
    drawn = charts.w2_throughput(results)
    assert drawn is not None
    assert [panel.title for panel in drawn.panels] == ["null cipher", "aes-xts-plain64"]
    assert asked.calls[1][3] == ["raw", "series:both"]


def test_lines_join_what_differs_in_one_thing() -> None:
    load = replace(POSTING, workload="curves")
    depths = [replace(load, queue_depth=number) for number in (16, 1, 4)]
    jobs = [replace(load, jobs=number) for number in (2, 8)]
    write = replace(load, rw="write")
    found = groups([*depths, *jobs, write], "queue_depth")
    assert [[each.queue_depth for each in group] for group in found] == [[1, 4, 16]]
    assert [[each.jobs for each in group] for group in groups([*depths, *jobs], "jobs")] == [[1, 2, 8]]
    assert groups([load], "scheduler") == []
    alone = replace(load, scheduler="none")
    assert groups([alone], "scheduler") == [[alone]]


def test_curves_have_a_panel_for_each_sector_size(asked: Asked) -> None:
    results = synthetic.results(synthetic.curves())
    drawn = charts._curve("block_sizes", "block size", "cpu")(results)
    assert drawn is not None
    assert [panel.title for panel in drawn.panels] == [
        f"{way}, sectors of {sector}" for way in ("read", "write") for sector in (512, 4096)
    ]
    series = {line.label: line for line in asked.calls[1][3]}
    assert [place for place, _ in series["series:both"].points] == [4096 << shift for shift in range(9)]
    load = next(each for each in loads(results, "curves") if each.sector_size == 4096)
    expected = values(one(results, load, "series", "both"), METRICS["cpu"])
    assert min(expected) <= series["series:both"].points[0][1].median <= max(expected)


def test_the_distribution_takes_all_percentiles_there_are(asked: Asked) -> None:
    load = replace(POSTING, workload="W4")
    cell = measurement(load, "series", "both")
    more = [replace(s, latency_us={**s.latency_us, "p90": s.latency_us["p50"] * 1.5}) for s in cell.samples]
    assert charts.w4_distribution(synthetic.results([replace(cell, samples=tuple(more))])) is not None
    (line,) = asked.calls[0][3]
    assert [place for place, _ in line.points] == [50, 90, 99, 99.9]
    assert [v.median for _, v in line.points] == sorted(v.median for _, v in line.points)


@pytest.mark.parametrize("busy", [0, 2])
def test_the_parts_of_the_cost_are_the_whole(asked: Asked, busy: int) -> None:
    load = replace(POSTING, workload="W5", cpu_load=busy)
    assert charts.w5_cost(run([load])) is not None
    rows: list[Row]
    parts: list[Line]
    _, _, _, rows, parts = asked.calls[0]
    for place, row in enumerate(rows):
        together = sum(value.median for part in parts for at, value in part.points if at == place)
        assert together == pytest.approx(row.value.median, rel=0.02)


def test_the_chart_of_the_posting_has_its_figures() -> None:
    results = run([POSTING])
    panel = charts.w1_panels(results, [POSTING])[0]
    raw, default, both = (values(cell) for cell in cells(results, POSTING))
    ratios = sorted(b / d for b, d in zip(both, default))
    middle = (ratios[2] + ratios[3]) / 2
    texts = re.findall(r">([^<]+)</text>", panel.svg)
    assert any(text.endswith(f"({labels.figure(middle)}×)") for text in texts)
    assert {"raw", "base:default", "series:both", "MiB/s (× base:default)"} <= set(texts)
    assert raw


def test_a_cell_without_a_value_is_left_out() -> None:
    load = replace(POSTING, workload="W5")
    cell = measurement(load, "series", "both")
    blind = replace(cell, samples=tuple(replace(s, latency_us={}) for s in cell.samples))
    assert charts.w5_p99(synthetic.results([blind])) is None
    assert charts.w5_throughput(synthetic.results([blind])) is not None


def test_colours_belong_to_cells() -> None:
    some, all_of_them = of_cells(["raw", "series:both"]), of_cells(["raw", "base:default", "series:both", "mine:both"])
    assert some["series:both"] is all_of_them["series:both"]
    assert len({colour.name for colour in all_of_them.values()}) == 4
    assert len(of_cells([f"mine:{number}" for number in range(20)])) == 20
    assert len({(colour.light, colour.dark) for colour in COLOURS}) == len({colour.marker for colour in COLOURS}) == 8
