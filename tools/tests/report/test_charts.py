"""What the charts show: which cells, which values; how they look is tested with the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
import synthetic
from synthetic import POSTING, measurement

from dmcrypt_inline.bench.inguest import labels
from dmcrypt_inline.bench.inguest.measurements import RAW, Load, Results
from dmcrypt_inline.bench.inguest.stats import METRICS, values
from dmcrypt_inline.report import charts
from dmcrypt_inline.report.charts import over_raw, shown
from dmcrypt_inline.report.svg import COLOURS, of_cells
from dmcrypt_inline.report.tables import cells

KIB = 1024
WHO = ((RAW, RAW), ("base", "default"), ("series", "both"))


def run(found: Sequence[Load], rounds: int = synthetic.ROUNDS) -> Results:
    return synthetic.results([measurement(load, *who, rounds=rounds) for load in found for who in WHO])


def drawn(results: Results) -> dict[str, charts.Chart]:
    return {chart.name: chart for chart in charts.charts(results)}


def titles(chart: charts.Chart) -> list[str]:
    return [title for panel in chart.panels for title in re.findall(r"<title>(.*?)</title>", panel)]


def texts(chart: charts.Chart) -> set[str]:
    return {text for panel in chart.panels for text in re.findall(r">([^<]+)</text>", panel)}


@pytest.mark.parametrize(("size", "factor"), [(4 * KIB, 1), (64 * KIB, 16), (1024 * KIB, 256)])
def test_the_matrix_is_normalised_to_4k(size: int, factor: int) -> None:
    load = replace(POSTING, workload="W2", block_sizes=(size, size))
    results = run([load], rounds=1)
    [sample] = results.measurements[2].samples
    for metric, expected in (
        (charts.IOPS_4K, sample.ios / sample.seconds * factor),
        (charts.LATENCY_4K, sample.latency_us["p50"] / factor),
    ):
        found = shown(results, load, metric)
        assert list(found) == ["raw", "base:default", "series:both"]
        assert found["series:both"].median == pytest.approx(expected)


def test_what_is_added_is_more_than_the_raw_device() -> None:
    load = replace(POSTING, workload="W4")
    found = shown(run([load]), load, METRICS["p50"], over_raw)
    assert {name: round(value.median, -1) for name, value in found.items()} == {"base:default": 200, "series:both": 20}


def test_the_raw_device_is_shown_with_every_cipher() -> None:
    null = replace(POSTING, workload="W2")
    real = replace(null, cipher="aes-xts-plain64")
    results = synthetic.results([*run([null]).measurements, measurement(real, "series", "both")])
    assert titles(drawn(results)["w2-throughput"]) == ["null cipher", "aes-xts-plain64"]  # of bars: one size
    assert list(shown(results, real, METRICS["p50"])) == ["raw", "series:both"]


def test_lines_join_what_differs_in_one_thing() -> None:
    load = replace(POSTING, workload="curves")
    depths = [replace(load, queue_depth=number) for number in (16, 1, 4)]
    jobs = [replace(load, jobs=number) for number in (2, 8)]
    found = charts.groups([*depths, *jobs, replace(load, rw="write")], "queue_depth")
    assert [[each.queue_depth for each in group] for group in found] == [[1, 4, 16]]
    assert [[each.jobs for each in group] for group in charts.groups([*depths, *jobs], "jobs")] == [[1, 2, 8]]
    assert charts.groups([load], "scheduler") == []
    alone = replace(load, scheduler="none")
    assert charts.groups([alone], "scheduler") == [[alone]]
    sizes = [
        replace(load, sector_size=sector, block_sizes=(size, size)) for sector in (512, 4096) for size in (4096, 8192)
    ]
    chart = drawn(run(sizes))["curves-block_sizes-cpu"]
    assert titles(chart) == ["sectors of 512", "sectors of 4096"]
    assert {"4k", "8k", "block size", "series:both"} <= texts(chart)
    assert "queue depth 1, 1 job" in chart.text


def test_the_chart_of_the_posting_has_its_figures() -> None:
    results = run([POSTING])
    raw, default, both = (values(cell) for cell in cells(results, POSTING))
    ratios = sorted(b / d for b, d in zip(both, default))
    middle = (ratios[2] + ratios[3]) / 2
    found = texts(drawn(results)["w1"])
    assert any(text.endswith(f"({labels.figure(middle)}×)") for text in found)
    assert {"raw", "base:default", "series:both", "MiB/s (× base:default)"} <= found
    assert raw


def test_a_cell_without_a_value_is_left_out() -> None:
    cell = measurement(replace(POSTING, workload="W5"), "series", "both")
    blind = replace(cell, samples=tuple(replace(s, latency_us={}) for s in cell.samples))
    assert list(drawn(synthetic.results([blind]))) == ["w5-throughput", "w5-cost"]


def test_colours_belong_to_cells() -> None:
    some, all_of_them = of_cells(["raw", "series:both"]), of_cells(["raw", "base:default", "series:both", "mine:both"])
    assert some["series:both"] is all_of_them["series:both"]
    assert len({colour.name for colour in all_of_them.values()}) == 4
    assert len(of_cells([f"mine:{number}" for number in range(20)])) == 20
    assert len({(colour.light, colour.dark) for colour in COLOURS}) == len({colour.marker for colour in COLOURS}) == 8
