import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from dmcrypt_inline.commands import testing
from dmcrypt_inline.common.errors import UserError


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("def test_a(): pass\n", True),
        ("def test_a(): pass\ndef test_b(): assert False\n", False),
        ("import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no fio')\n", False),
        ("", False),
    ],
)
def test_only_tests_that_pass_have_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, passes: bool
) -> None:
    monkeypatch.setattr(testing, "python_env", lambda: Path(sys.prefix))
    (tmp_path / "test_it.py").write_text(text)
    with nullcontext() if passes else pytest.raises(UserError):
        testing.run_own_tests(tmp_path / "test_it.py")
