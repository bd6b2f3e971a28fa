import pytest

from dmcrypt_inline.checks.checklist import Check, Failed, Skipped, run_checks
from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError


def raises(error: Exception) -> Check:
    def call() -> None:
        raise error

    return Check(str(error), call, slow=True)


def test_each_result_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [Check("a", lambda: None), *map(raises, (Failed("b\nc"), UserError("d"), Skipped("e")))]
    assert run_checks(checks) == Counts(passed=1, failed=2, skipped=1)
    assert "    b\n    c\n" in capsys.readouterr().out
    assert run_checks(checks, quick=True) == Counts(passed=1, failed=0, skipped=0)
    assert run_checks([Check("a", lambda: None, needs=("no-such-program",))]) == Counts(0, 1, 0)
