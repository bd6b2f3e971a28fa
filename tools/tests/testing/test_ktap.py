import pytest

from dmcrypt_inline.testing.ktap import Case, Report, parse


@pytest.mark.parametrize(
    ("text", "cases", "skip"),
    [
        (
            "KTAP version 1\n1..3\nok 1 same_data capi:ecb(cipher_null) 512\nsome program's noise\n"
            "# flags\n#   expected: a\nnot ok 2 any_order\nok 3 elephant # SKIP the kernel lacks it\n",
            (
                Case(True, "same_data capi:ecb(cipher_null) 512", ""),
                Case(False, "any_order", ""),
                Case(True, "elephant", "the kernel lacks it"),
            ),
            "",
        ),
        ("KTAP version 1\n1..0 # SKIP needs root\n", (), "needs root"),
        ("1..1\nok 1 a # SKIP\n", (Case(True, "a", "no reason given"),), ""),
        ("1..1\nnot ok 1 a # SKIP broken\n", (Case(False, "a", "broken"),), ""),
    ],
)
def test_reads_cases_and_skips(text: str, cases: tuple[Case, ...], skip: str) -> None:
    assert parse(text) == Report(skip, cases, ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no plan"),
        ("KTAP version 1\nok 1 a\n", "no plan"),
        ("1..2\nok 1 a\n", "2 tests planned, 1 seen"),
        ("1..1\nok 1 a\nok 2 b\n", "1 tests planned, 2 seen"),
        ("1..2\nok 1 a\nok 3 b\n", "expected test 2, got: ok 3 b"),
        ("1..2\nok 1 a\nok 1 a\n", "expected test 2, got: ok 1 a"),
        ("1..1\nok 1 a\n1..1\n", "a second plan: 1..1"),
        ("1..0\n", "nothing planned, and no reason given"),
        ("1..1\nBail out! no disk\n", "Bail out! no disk"),
        ("1..2\nok 1 a\nok 2 wri", "the output ends in the middle of a line"),
    ],
)
def test_reports_violations_of_the_format(text: str, problem: str) -> None:
    assert problem in parse(text).problems
