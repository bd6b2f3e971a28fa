"""checks/checklist.py: the result of each check is counted and printed."""

from __future__ import annotations

import pytest

from dmcrypt_inline.checks.checklist import Check, Failed, Skipped, run_checks
from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError


def fails() -> None:
    raise Failed("this\nand that")


def refuses() -> None:
    raise UserError("cannot")


def skips() -> None:
    raise Skipped("not here")


PASSING = Check("a", lambda: None)


def test_each_result_is_counted_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [PASSING, Check("b", fails), Check("c", refuses), Check("d", skips)]
    assert run_checks(checks) == Counts(passed=1, failed=2, skipped=1)
    printed = capsys.readouterr().out
    assert printed == "ok a\nnot ok b\n    this\n    and that\nnot ok c\n    cannot\nskip d: not here\n"


def test_slow_checks_are_not_in_make_test() -> None:
    assert run_checks([PASSING, Check("b", fails, slow=True)], quick=True) == Counts(1, 0, 0)
    assert run_checks([PASSING, Check("b", fails, slow=True)]) == Counts(1, 1, 0)


def test_a_missing_program_fails_and_names_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("dmcrypt_inline.checks.checklist.GIT_COMMANDS", "/nowhere")
    check = Check("a", lambda: None, needs=("quilt", "spatch", "git-send-email"))
    assert run_checks([check]) == Counts(0, 1, 0)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [(line.split()[0], line.split()[-1].strip(")")) for line in lines] == [
        ("quilt", "quilt"),
        ("spatch", "coccinelle"),
        ("git-send-email", "git-email"),
    ]
