"""counts.py and tools_tests.py: what the parts of make test come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.run import Completed
from dmcrypt_inline.proofs import tools_tests


def test_a_skip_of_the_tools_tests_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tools_tests, "python_env", lambda: tmp_path)
    for said, expected in (
        ("5 passed in 1s\n", Counts(5, 0, 0)),
        ("SKIPPED [1] a.py:1: needs fio\n4 passed, 1 skipped in 1s\n", Counts(4, 1, 1)),
    ):
        monkeypatch.setattr(tools_tests, "run", lambda argv, said=said, **_: Completed(tuple(argv), 0, said, 1.0))
        assert tools_tests.run_own_tests() == expected
    assert "a.py:1: needs fio" in capsys.readouterr().out
