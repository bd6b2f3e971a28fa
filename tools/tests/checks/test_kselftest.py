"""checks/linux.py: a selftest that its Makefile does not list fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Failed
from dmcrypt_inline.trees import selftests


def test_a_selftest_that_is_not_in_the_makefile_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftests, "SELFTESTS", tmp_path)
    for name in ("one.sh", "two.sh", "settings"):
        (tmp_path / name).touch()
    (tmp_path / "Makefile").write_text("TEST_PROGS := one.sh two.sh\n")
    linux._makefile_lists_selftests()
    (tmp_path / "Makefile").write_text("TEST_PROGS := one.sh\n")
    with pytest.raises(Failed, match=r"^two\.sh "):
        linux._makefile_lists_selftests()
