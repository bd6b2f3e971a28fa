"""Medians with their spread, and comparisons of paired samples with an interval.

Nothing here assumes a distribution: on a shared machine samples have a long tail on the slow side. The interval of a
median is that of the sign test (Conover, Practical Nonparametric Statistics, 3rd edition, 3.2).
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

# How often an interval may miss the true median. At 1/10 five rounds give an interval (they miss it in 1/16 of the
# cases); at 1/20 it would take six.
ERROR = Fraction(1, 10)


@dataclass(frozen=True)
class Spread:
    """A median with the quartiles around it, in the unit of the samples."""

    median: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> Spread:
    """Median and quartiles; of a single sample, that sample three times."""
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, low, high)


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """The two samples between which the true median lies, except for ERROR; None when there are too few samples.

    The k-th smallest and the k-th largest sample miss it on one side as often as a fair coin shows heads fewer than k
    times in n.
    """
    number, ordered = len(samples), sorted(samples)
    best, missed = None, 0
    for k in range(number // 2):
        missed += comb(number, k)
        if Fraction(2 * missed, 2**number) > ERROR:
            break
        best = (ordered[k], ordered[number - 1 - k])
    return best


@dataclass(frozen=True)
class Comparison:
    """The median ratio of paired samples and its interval (None: too few rounds)."""

    median: float
    interval: tuple[float, float] | None

    @property
    def differs(self) -> bool:
        """True if the interval excludes 1."""
        return self.interval is not None and not self.interval[0] <= 1 <= self.interval[1]


def compare(values: Mapping[int, float], reference: Mapping[int, float]) -> Comparison | None:
    """The quotient of two cells' values, by round; None when they share no round.

    Values of one round were taken close to each other, so a drift of the machine cancels out.
    """
    found = [values[number] / reference[number] for number in sorted(values.keys() & reference.keys())]
    return Comparison(statistics.median(found), median_interval(found)) if found else None
