"""ktap.py: correct and incorrect KTAP."""

from __future__ import annotations

import pytest

from dmcrypt_inline.testing.ktap import Case, parse


def test_reads_cases_skips_and_diagnostics() -> None:
    report = parse(
        "KTAP version 1\n1..3\nok 1 same_data capi:ecb(cipher_null) 512\nsome program's noise\n"
        "# flags\n#   expected: a\nnot ok 2 any_order\nok 3 elephant # SKIP the kernel lacks it\n"
    )
    assert report.problems == ()
    assert report.cases == (
        Case(1, True, "same_data capi:ecb(cipher_null) 512", "", ()),
        Case(2, False, "any_order", "", ("flags", "  expected: a")),
        Case(3, True, "elephant", "the kernel lacks it", ()),
    )


def test_reads_a_skipped_file() -> None:
    report = parse("KTAP version 1\n1..0 # SKIP needs root\n")
    assert (report.skip, report.cases, report.problems) == ("needs root", (), ())


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


def test_a_skip_without_a_reason_is_still_a_skip() -> None:
    assert parse("1..1\nok 1 a # SKIP\n").cases[0].skip == "no reason given"


def test_a_failed_case_with_a_skip_mark_has_failed() -> None:
    [case] = parse("1..1\nnot ok 1 a # SKIP broken\n").cases
    assert not case.ok
