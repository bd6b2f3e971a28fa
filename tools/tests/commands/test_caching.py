import fcntl
import os
import time
from pathlib import Path

import pytest

from dmcrypt_inline.commands import caching, cli
from dmcrypt_inline.common.paths import lock_of, use_entry


def make(kind: str, name: str, days: float) -> Path:
    """An entry of 6 MiB that a run used `days` days ago."""
    path = use_entry(kind, name)
    path.mkdir()
    (path / "file").write_bytes(b"x" * (6 << 20))
    then = time.time() - days * caching.DAY
    os.utime(lock_of(path), (then, then))
    return path


def test_used_entries_are_kept_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    old = [make("sources", "old", 40), make("images", "old", 40)]
    young, used = make("kernels", "young", 1), make("bases", "used", 40)
    use_entry("bases", "used")
    assert cli.main(["cache", "--prune", "30"]) == 0
    assert [path.exists() for path in (*old, young, used)] == [False, False, True, True]
    assert "1 entries, unused for 1 to 1 days  kernels: " in capsys.readouterr().out
    assert cli.main(["cache", "--prune", "0"]) == 0
    assert caching.entries() == []


def test_an_entry_that_a_run_makes_or_begins_to_use_meanwhile_is_kept() -> None:
    make("bases", "first", 40)
    busy, used = make("kernels", "busy", 40), make("kernels", "used", 40)
    removing = caching.remove_unused(30)
    assert next(removing).name == "first"
    use_entry("kernels", "used")
    with lock_of(busy).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert list(removing) == []
    assert busy.exists()
    assert used.exists()
