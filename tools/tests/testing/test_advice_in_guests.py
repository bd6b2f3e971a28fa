"""testing/advice.py: the input of the guest and its result."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from guests import make_guests, module, user_mode

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.kernels.build import Kernel
from dmcrypt_inline.testing.advice import run_advice
from dmcrypt_inline.testing.guest_tests import Guests


def guests(kernel: Kernel, place: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Guests:
    """Guests in which `body` (sh) replaces advise.sh."""
    own = make_guests(kernel, place, monkeypatch, "")
    return replace(own, kernel=user_mode(kernel, body), accel="native")


def test_the_package_reaches_the_guest_and_a_skip_is_a_failure(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = r"printf '1..2\nok 1 a\nok 2 b # SKIP c\n' >$SHARE/results/advise.ktap; echo 0 >$SHARE/status"
    result = run_advice(guests(kernel, tmp_path, monkeypatch, body), module(tmp_path, "base"))
    assert result.counts == Counts(1, 1, 1)
    given = tmp_path / "out/share/input/advise"
    argv = [sys.executable, "-S", "-s", "-m", "dmcrypt_advise", "--help"]
    done = subprocess.run(argv, cwd="/", env={"PYTHONPATH": str(given)}, check=False, capture_output=True, text=True)
    assert done.stdout.startswith("usage: dmcrypt-advise")


def test_a_guest_without_a_result_is_an_error(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError):
        run_advice(guests(kernel, tmp_path, monkeypatch, "echo 1 >$SHARE/status"), module(tmp_path, "base"))
