"""Medians with their spread, ratios within a round, and whether they tell a difference.

Nothing here assumes a distribution: on a shared machine samples have a long tail
on the slow side. The interval of a median is the one of the sign test (Conover,
Practical Nonparametric Statistics, 3rd edition, 3.2), that of the ratio of two
independent groups the one of the rank sum test (Hollander, Wolfe and Chicken,
Nonparametric Statistical Methods, 3rd edition, 4.3).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import count
from math import comb

from .measurements import RAW, Load, Measurement, Results, Sample

GIB = 1 << 30

# How often a verdict may be wrong where there is no difference. At 1/10 five rounds, of which all must agree, can
# tell one (their true rate is 1/16); at 1/20 it would take six.
ERROR = Fraction(1, 10)
FEW = "too few rounds to tell"


@dataclass(frozen=True)
class Spread:
    """A median with the quartiles around it; all in the unit of the samples."""

    median: float
    low: float
    high: float

    @property
    def iqr(self) -> float:
        """The distance of the quartiles as a fraction of the median."""
        return (self.high - self.low) / self.median


def spread(samples: Sequence[float]) -> Spread:
    """Median and quartiles; of a single sample, that sample three times. Raises ValueError for none."""
    if not samples:
        raise ValueError("no samples")
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, low, high)


def settled(samples: Sequence[float], at_least: int, within: float) -> bool:
    """Whether there are `at_least` samples, and the quartiles lie `within` this fraction of the median apart."""
    return len(samples) >= at_least and spread(samples).iqr < within


@dataclass(frozen=True)
class Metric:
    """One figure of a sample: what it is, its unit, and the words for more and for less of it."""

    title: str
    unit: str
    value: Callable[[Load, Sample], float]
    more: str
    less: str


def cost(_load: Load, sample: Sample) -> float:
    """CPU seconds for each GiB moved, of all threads and interrupts that had a part in it."""
    return sum(sample.cpu_seconds.values()) / (sample.bytes / GIB)


TAIL = 10  # requests beyond a percentile, below which it is a few outliers and tells nothing of the rest


def latency(percentile: str) -> Metric:
    """A percentile of Sample.latency_us ("p99") as a metric; 0 where it was not kept, or of too few requests."""
    percent = float(percentile.removeprefix("p"))

    def value(_load: Load, sample: Sample) -> float:
        beyond = sample.ios * min(percent, 100 - percent) / 100
        return sample.latency_us.get(percentile, 0.0) if beyond >= TAIL else 0.0

    return Metric(f"{percentile} latency", "microseconds", value, "slower", "faster")


METRICS: Mapping[str, Metric] = {
    "throughput": Metric("throughput", "MiB/s", lambda _, sample: sample.throughput, "faster", "slower"),
    "p50": latency("p50"),
    "p99": latency("p99"),
    "p99.9": latency("p99.9"),
    "cpu": Metric("CPU time per GiB", "CPU seconds per GiB", cost, "dearer", "cheaper"),
}
THROUGHPUT = METRICS["throughput"]


def values(cell: Measurement, metric: Metric = THROUGHPUT) -> list[float]:
    """The metric of each sample, in order."""
    return [metric.value(cell.load, sample) for sample in cell.samples]


@dataclass(frozen=True)
class Ratio:
    """Ratios with their spread. `interval` holds their median but for ERROR; None: too few `rounds` to tell."""

    ratios: tuple[float, ...]
    spread: Spread
    interval: tuple[float, float] | None

    @property
    def rounds(self) -> int:
        """How many rounds both sides have."""
        return len(self.ratios)

    @property
    def direction(self) -> int:
        """1: above 1, -1: below, 0: it cannot be told."""
        if self.interval is None or self.interval[0] <= 1 <= self.interval[1]:
            return 0
        return 1 if self.interval[0] > 1 else -1

    def verdict(self, metric: Metric = THROUGHPUT) -> str:
        """The direction in the metric's word, 'no difference', or that there are too few rounds to tell."""
        if self.interval is None:
            return f"{FEW}: {self.rounds}"
        return {1: metric.more, -1: metric.less, 0: "no difference"}[self.direction]


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Between which samples the true median lies, but for ERROR; None when there are too few to say.

    The k-th smallest and the k-th largest sample miss it on one side as often as a
    fair coin shows heads fewer than k times in n.
    """
    number, ordered = len(samples), sorted(samples)
    best, missed = None, 0
    for k in range(number // 2):
        missed += comb(number, k)
        if Fraction(2 * missed, 2**number) > ERROR:
            break
        best = (ordered[k], ordered[number - 1 - k])
    return best


# How many rounds it takes to tell a difference.
ENOUGH = next(number for number in count(1) if median_interval(range(number)))


def ratio(cell: Measurement, reference: Measurement, metric: Metric = THROUGHPUT) -> Ratio | None:
    """How many times the reference of its own round the cell is.

    None when they share no round, or when a value is 0 (not measured, or below the
    clock's resolution). Raises ValueError when the loads differ in what both sides have.
    """
    if not same_load(cell, reference):
        raise ValueError(f"not the same load: {cell.load} and {reference.load}")
    of = {sample.round: metric.value(reference.load, sample) for sample in reference.samples}
    pairs = [(metric.value(cell.load, s), of[s.round]) for s in cell.samples if s.round in of]
    if not pairs or not all(value > 0 and other > 0 for value, other in pairs):
        return None
    ratios = tuple(value / other for value, other in pairs)
    return Ratio(ratios, spread(ratios), median_interval(ratios))


def same_load(cell: Measurement, reference: Measurement) -> bool:
    """Whether both did the same to the same device. The raw device has neither cipher nor sectors of a mapping."""
    load = reference.load
    if reference.variant == RAW:
        load = replace(load, cipher=cell.load.cipher, sector_size=cell.load.sector_size)
    return load == cell.load


def raw_of(results: Results, cell: Measurement) -> Measurement | None:
    """The raw device under the same load."""
    return _find(results, cell, (RAW, RAW))


def baseline(results: Results) -> tuple[str, str]:
    """Variant and mode that everything is compared with, besides the raw device: a default path.

    The base's, or that of the only variant there is, as on a running kernel.
    """
    variants = {cell.variant for cell in results.measurements} - {RAW}
    return (variants.pop() if len(variants) == 1 else "base", "default")


def default_of(results: Results, cell: Measurement) -> Measurement | None:
    """The default path of `baseline` under the same load."""
    return _find(results, cell, baseline(results))


def same_mode_of(results: Results, cell: Measurement) -> Measurement | None:
    """The base in the cell's own mode under the same load, where the base has that mode."""
    return _find(results, cell, ("base", cell.mode))


def _find(results: Results, cell: Measurement, who: tuple[str, str]) -> Measurement | None:
    found = [each for each in results.measurements if (each.variant, each.mode) == who and same_load(cell, each)]
    return next((each for each in found if each.load == cell.load), found[0] if found else None)


def between(first: Ratio, second: Ratio) -> Ratio:
    """How many times the first the second is: all pairs, their median with its interval but for ERROR.

    The groups need not have the same size; they are independent of each other, as
    two boots are.
    """
    pairs = sorted(b / a for a in first.ratios for b in second.ratios)
    total = comb(first.rounds + second.rounds, first.rounds)
    best, below = None, 0
    for k in range(len(pairs) // 2):
        below += _arrangements(first.rounds, second.rounds, k)
        if Fraction(2 * below, total) > ERROR:
            break
        best = (pairs[k], pairs[len(pairs) - 1 - k])
    return Ratio(tuple(pairs), spread(pairs), best)


@cache
def _arrangements(first: int, second: int, statistic: int) -> int:
    """In how many orders of two groups of these sizes the rank sum statistic (Mann and Whitney's U) has this value."""
    if statistic < 0:
        return 0
    if first == 0 or second == 0:
        return 1 if statistic == 0 else 0
    return _arrangements(first - 1, second, statistic - second) + _arrangements(first, second - 1, statistic)


def added(cell: Measurement, reference: Measurement, metric: Metric) -> Spread | None:
    """How much more than the reference of its own round the cell has, in the metric's unit; None: no common round."""
    of = {sample.round: metric.value(reference.load, sample) for sample in reference.samples}
    more = [metric.value(cell.load, sample) - of[sample.round] for sample in cell.samples if sample.round in of]
    return spread(more) if more else None
