"""What a measurement does when it is interrupted or something cannot be taken down."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmcrypt_inline import measure
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.measurements import Load
from dmcrypt_inline.run import Completed, run
from dmcrypt_inline.sampling import Sampler
from dmcrypt_inline.workloads import NULL, Plan

LOAD = Load("W1", "a file", NULL, 512, "read", (4096, 4096), 1, 1)
PLAN = Plan("small", (), 10.0, runtime=3.0, warm_up=0.1)
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in BOTH}
    for number in BOTH:
        signal.signal(number, lambda *_: None)  # against a test that fails
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("first", BOTH)
def test_only_the_first_signal_interrupts(first: signal.Signals) -> None:
    measure.interruptible()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(first)
    for number in BOTH:
        signal.raise_signal(number)
        killed = subprocess.run(["sh", "-c", f"kill -{number.value} $$; sleep 5"], check=False)
        assert killed.returncode == -number  # a program run while cleaning up can still be ended


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A file with a colon in its name, where fio separates names."""
    path = tmp_path / "disk:1"
    path.write_bytes(os.urandom(1 << 20))
    return path


@needs_fio
def test_fio_ends_before_an_exception_goes_on(tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[float] = []

    def noted(*argv: Any, **options: Any) -> Completed:
        try:
            return run(*argv, **options)
        finally:
            ended.append(time.monotonic())

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dmcrypt_inline.sampling.run", noted)
    monkeypatch.setattr("dmcrypt_inline.accounting.machine", interrupted)
    with Sampler(tmp_path / "results", read_only=True) as sampler:
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            sampler.samples([LOAD] * 3, str(disk), PLAN, 1, "0.json")
        assert ended, "fio is still running"
        assert ended[0] - begin < PLAN.runtime  # it did none of its work


@needs_fio
def test_a_sample_of_a_file_and_no_write_to_what_is_only_read(tmp_path: Path, disk: Path) -> None:
    before = disk.read_bytes()
    plan = replace(PLAN, runtime=0.1)
    with Sampler(tmp_path / "results", read_only=True) as sampler:
        (sample,) = sampler.samples([LOAD], str(disk), plan, 1, "0.json")
        assert sample.ios > 0
        with pytest.raises(UserError, match=r"read-only|readonly"):
            sampler.samples([replace(LOAD, rw="write")], str(disk), plan, 1, "1.json")
    assert disk.read_bytes() == before
