from dmcrypt_inline.report.statistics import Comparison, Spread, compare, median_interval, spread


def test_spread() -> None:
    assert spread([3.0]) == Spread(3.0, 3.0, 3.0)
    assert spread([5.0, 1.0, 4.0, 2.0, 3.0]) == Spread(3.0, 2.0, 4.0)


def test_the_interval_of_a_median_is_that_of_the_sign_test() -> None:
    # n and k from the tables of the binomial distribution: 2 * P(fewer than k heads in n) <= 0.1.
    assert median_interval(range(4)) is None
    assert median_interval(range(5)) == (0, 4)
    assert median_interval(range(7)) == (0, 6)
    assert median_interval(range(8)) == (1, 6)
    assert median_interval(range(20)) == (5, 14)


def test_samples_are_compared_within_their_round() -> None:
    drifting = {1: 10.0, 2: 20.0, 3: 40.0, 4: 80.0, 5: 160.0}
    tripled = {number: 3 * value for number, value in reversed(drifting.items())}
    assert compare(tripled, drifting) == Comparison(3.0, (3.0, 3.0))
    del drifting[1]
    assert compare(tripled, drifting) == Comparison(3.0, None)
    assert compare(tripled, {9: 1.0}) is None


def test_an_interval_that_holds_1_shows_no_difference() -> None:
    intervals = ((1.01, 1.03), (0.97, 0.99), (0.99, 1.02), None)
    assert [Comparison(1.0, each).differs for each in intervals] == [True, True, False, False]
