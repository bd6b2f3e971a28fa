"""tools_tests.py: only tests that pass count as passed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.testing import tools_tests


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("def test_a(): pass\ndef test_b(): assert False\n", Counts(1, 1, 0)),
        ("import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no fio')\n", Counts(1, 1, 1)),
        ("", Counts(0, 1, 0)),
    ],
)
def test_only_tests_that_pass_have_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, counts: Counts
) -> None:
    monkeypatch.setattr(tools_tests, "python_env", lambda: Path(sys.prefix))
    monkeypatch.setattr(tools_tests, "BUILD", tmp_path)
    (tmp_path / "test_it.py").write_text(text)
    assert tools_tests.run_own_tests(tmp_path / "test_it.py") == counts
