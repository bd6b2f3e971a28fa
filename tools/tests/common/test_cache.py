"""cache.py: what lies in the cache, and what is removed from it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from dmcrypt_inline.commands import cli
from dmcrypt_inline.common import cache
from dmcrypt_inline.common.paths import cache_dir, entry, lock_of


def make(kind: str, name: str, days: float) -> Path:
    """An entry of 8 KiB that was used so many days ago."""
    path = entry(kind, name)
    path.mkdir()
    (path / "file").write_bytes(b"x" * 8192)
    then = time.time() - days * cache.DAY
    os.utime(lock_of(path), (then, then))
    return path


def test_entries_are_told_with_size_and_age(capsys: pytest.CaptureFixture[str]) -> None:
    make("kernels", "young", 0)
    make("kernels", "old", 40)
    make("bases", "one.git", 3)
    (cache_dir() / "notes").mkdir()
    found = cache.entries()
    assert [(each.kind, each.path.name) for each in found] == [
        *(("bases", "one.git"), ("kernels", "old"), ("kernels", "young"))
    ]
    assert all(each.size >= 8192 for each in found)
    assert cli.main(["cache"]) == 0
    said = capsys.readouterr().out
    assert "used 40 days ago  old\n" in said
    assert "used today  young\n" in said
    assert "bases: trees before the queue" in said


def test_what_is_used_is_not_removed(capsys: pytest.CaptureFixture[str]) -> None:
    young, old, wanted = make("kernels", "young", 1), make("sources", "old", 40), make("bases", "wanted", 40)
    entry("bases", "wanted")
    assert cli.main(["cache", "--prune", "30"]) == 0
    assert (young.exists(), old.exists(), wanted.exists()) == (True, False, True)
    said = capsys.readouterr().out
    assert "removed sources/old, used 40 days ago" in said
    assert "1 removed" in said
    assert cli.main(["cache", "--prune", "0"]) == 0
    assert cache.entries() == []


def test_what_is_being_made_is_not_removed() -> None:
    path = make("kernels", "busy", 40)
    with lock_of(path).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert list(cache.prune(30)) == []
    assert path.exists()


def test_a_negative_age_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    make("kernels", "one", 0)
    assert cli.main(["cache", "--prune", "-1"]) == 1
    assert "PRUNE=-1" in capsys.readouterr().err
    assert len(cache.entries()) == 1
