"""stats.py: medians, intervals, ratios within a round, and when they tell a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from synthetic import POSTING, measurement, results

from dmcrypt_inline.bench.inguest.measurements import RAW, Measurement
from dmcrypt_inline.bench.inguest.stats import (
    METRICS,
    Ratio,
    Spread,
    _arrangements,
    between,
    cost,
    default_of,
    median_interval,
    ratio,
    raw_of,
    settled,
    spread,
)


def with_speeds(speeds: Sequence[float], mode: str = "both") -> Measurement:
    """A cell whose rounds have these MiB/s."""
    cell = measurement(POSTING, "series", mode, rounds=len(speeds))
    pairs = zip(cell.samples, speeds)
    return replace(cell, samples=tuple(replace(s, bytes=int(v * s.seconds * (1 << 20))) for s, v in pairs))


def plain(ratios: Sequence[float]) -> Ratio:
    return Ratio(tuple(ratios), spread(ratios), median_interval(ratios))


def test_spread() -> None:
    assert spread([3.0]) == Spread(3.0, 3.0, 3.0)
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(3.0, 2.0, 4.0)
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]).iqr == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="no samples"):
        spread([])


def test_the_interval_of_a_median_is_the_sign_test_s() -> None:
    # n and k from the tables of the binomial distribution: 2 * P(fewer than k heads in n) <= 0.1.
    assert median_interval(range(4)) is None
    assert median_interval(range(5)) == (0, 4)
    assert median_interval(range(7)) == (0, 6)
    assert median_interval(range(8)) == (1, 6)
    assert median_interval(range(20)) == (5, 14)


def test_the_rank_sum_counts_are_those_of_all_orders() -> None:
    counted: dict[int, int] = {}
    for places in combinations(range(7), 3):
        statistic = sum(place - index for index, place in enumerate(places))
        counted[statistic] = counted.get(statistic, 0) + 1
    assert {value: _arrangements(3, 4, value) for value in counted} == counted


def test_ratios_are_taken_within_a_round() -> None:
    drifting = [10.0, 20.0, 40.0, 80.0, 160.0]
    reference, cell = with_speeds(drifting, "default"), with_speeds([3 * speed for speed in drifting])
    found = ratio(cell, reference)
    assert found is not None
    assert found.spread.iqr < 1e-6
    assert found.spread.median == pytest.approx(3.0)
    assert found.verdict() == "faster"
    shuffled = replace(reference, samples=reference.samples[::-1])  # the round decides, not the place
    assert ratio(cell, shuffled) == found
    one_missing = ratio(cell, replace(reference, samples=reference.samples[1:]))
    assert one_missing is not None
    assert one_missing.rounds == 4


@pytest.mark.parametrize(
    ("ratios", "metric", "expected"),
    [
        ([1.01, 1.02, 1.03, 1.02, 1.01], "throughput", "faster"),
        ([0.97, 0.98, 0.99, 0.98, 0.97], "throughput", "slower"),
        ([1.01, 1.02, 0.99, 1.02, 1.01], "throughput", "no difference"),
        ([1.5, 1.6, 1.5, 1.6], "throughput", "too few rounds to tell: 4"),
        ([2.0, 2.1, 2.0, 2.1, 2.0], "p99", "slower"),
        ([0.5, 0.6, 0.5, 0.6, 0.5], "cpu", "cheaper"),
    ],
)
def test_verdicts(ratios: list[float], metric: str, expected: str) -> None:
    assert plain(ratios).verdict(METRICS[metric]) == expected


def test_what_cannot_be_compared_is_not() -> None:
    cell, reference = with_speeds([2.0] * 5), with_speeds([1.0] * 5, "default")
    assert ratio(cell, with_speeds([0.0] * 5, "default")) is None
    assert ratio(cell, replace(reference, samples=())) is None
    with pytest.raises(ValueError, match="not the same load"):
        ratio(cell, replace(reference, load=replace(POSTING, jobs=2)))


def test_references_are_cells_of_the_same_load() -> None:
    other = replace(POSTING, rw="write")
    cells = [measurement(load, *who) for load in (other, POSTING) for who in ((RAW, RAW), ("base", "default"))]
    found = results(cells)
    cell = measurement(POSTING, "series", "both")
    assert raw_of(found, cell) is cells[2]
    assert default_of(found, cell) is cells[3]
    real_cipher = replace(cell, load=replace(POSTING, cipher="aes-xts-plain64", sector_size=4096))
    assert raw_of(found, real_cipher) is cells[2]  # the device below is the same
    assert default_of(found, real_cipher) is None


def test_two_boots_are_told_apart_only_by_their_ratios() -> None:
    first, same = plain([2.0, 2.1, 1.9, 2.0, 2.05]), plain([2.02, 2.1, 1.95, 1.98])
    found = between(first, same)
    assert found.interval is not None
    assert found.direction == 0
    assert found.spread.median == pytest.approx(1.0, abs=0.02)
    found = between(first, plain([3.0, 3.1, 2.9, 3.0]))
    assert found.direction == 1
    assert found.spread.median == pytest.approx(1.5, abs=0.02)
    found = between(plain([2.0, 2.0]), plain([3.0, 3.0]))
    assert (found.spread.median, found.interval) == (1.5, None)


@pytest.mark.parametrize(("name", "ios", "told"), [("p99.9", 9999, False), ("p99.9", 10001, True), ("p50", 21, True)])
def test_a_percentile_of_too_few_requests_is_not_told(name: str, ios: int, told: bool) -> None:
    [sample] = measurement(POSTING, "base", "default", rounds=1).samples
    assert bool(METRICS[name].value(POSTING, replace(sample, ios=ios))) == told


def test_the_cost_is_all_cpu_time_by_gib() -> None:
    [sample] = measurement(POSTING, "base", "default", rounds=1).samples
    gib = replace(sample, bytes=2 << 30, cpu_seconds={"user": 1.0, "system": 2.0, "softirq": 0.5, "irq": 0.5})
    assert cost(POSTING, gib) == 2.0


def test_settled_needs_samples_that_agree() -> None:
    assert settled([100.0, 101.0, 102.0], 3, 0.03)
    assert not settled([100.0, 101.0], 3, 0.03)
    assert not settled([100.0, 110.0, 120.0], 3, 0.03)
    assert settled([100.0, 100.5, 101.0, 300.0], 3, 0.6)  # one stray sample does not count for ever
