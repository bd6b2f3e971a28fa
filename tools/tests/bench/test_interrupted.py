"""What a measurement does when it is interrupted or something cannot be taken down."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmcrypt_inline.bench.inguest import mappings, measure
from dmcrypt_inline.bench.inguest.devices import Device, opened
from dmcrypt_inline.bench.inguest.measurements import Load
from dmcrypt_inline.bench.inguest.sampling import Sampler
from dmcrypt_inline.bench.inguest.workloads import NULL, Plan
from dmcrypt_inline.common.cleanup import TRIES, retried
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.run import CommandError, Completed, run

LOAD = Load("W1", "a file", NULL, 512, "read", (4096, 4096), 1, 1)
PLAN = Plan("small", (), 10.0, runtime=20.0, warm_up=0.1)
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


@pytest.mark.usefixtures("handlers")
def test_an_interrupted_measurement_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dmcrypt_inline.bench.inguest.orders.read", interrupted)
    assert measure.main([str(tmp_path / "order.json"), str(tmp_path)]) == 1
    assert capsys.readouterr().out == "FAILED: interrupted\n"
    assert not (tmp_path / "end.json").exists()


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

    monkeypatch.setattr("dmcrypt_inline.bench.inguest.sampling.run", noted)
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.accounting.system", interrupted)
    with Sampler(tmp_path / "results", read_only=True) as sampler:
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            sampler.samples([(LOAD, str(disk))] * 3, PLAN, 1, "0.json")
        assert ended, "fio is still running"
        assert ended[0] - begin < PLAN.runtime  # it did none of its work


@needs_fio
def test_a_sample_of_a_file_and_no_write_to_what_is_only_read(tmp_path: Path, disk: Path) -> None:
    before = disk.read_bytes()
    plan = replace(PLAN, runtime=0.1)
    with Sampler(tmp_path / "results", read_only=True) as sampler:
        (sample,) = sampler.samples([(LOAD, str(disk))], plan, 1, "0.json")
        assert sample.ios > 0
        with pytest.raises(UserError, match=r"read-only|readonly"):
            sampler.samples([(replace(LOAD, rw="write"), str(disk))], plan, 1, "1.json")
    assert disk.read_bytes() == before


def test_what_others_look_into_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.common.cleanup.PAUSE", 0)
    results: list[str | UserError] = [UserError("busy"), UserError("busy"), "done"]

    def action() -> str:
        result = results.pop(0)
        if isinstance(result, UserError):
            raise result
        return result

    assert retried(action) == "done"
    results += [UserError("busy")] * TRIES
    with pytest.raises(UserError, match="busy"):
        retried(action)
    assert results == []


class Programs:
    """Instead of `run`: notes what is run; programs that start with a key end as its value says."""

    def __init__(self, **ends: BaseException | str) -> None:
        self.ends = ends
        self.ran: list[str] = []

    def __call__(self, argv: Sequence[str]) -> Completed:
        line = " ".join(argv)
        self.ran.append(line)
        end = next((end for key, end in self.ends.items() if line.startswith(key.replace("_", " "))), "")
        if isinstance(end, BaseException):
            raise end
        return Completed(tuple(argv), 0, end, 0.0)


def refused(*argv: str) -> CommandError:
    return CommandError(f"{argv[0]} failed", Completed(argv, 1, "", 0.0), Path("a.log"))


NAME = f"dmcrypt-inline-{os.getpid()}-default"
DEVICE = Device("/dev/ram0", 131072)
SHOWN = "0 131072 crypt capi:ecb(cipher_null) - 0 1:0 0"


def mapped(programs: Programs, body: BaseException | None = None) -> None:
    with mappings.mapped(mappings.null(DEVICE, read_only=True), DEVICE, "default", 512, programs, read_only=True) as (
        node,
        _,
    ):
        assert node == f"/dev/mapper/{NAME}"
        if body:
            raise body


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ({"dmsetup_create": KeyboardInterrupt()}, [f"dmsetup remove --retry {NAME}"]),
        ({"dmsetup_table": SHOWN, "dmsetup_remove": KeyboardInterrupt()}, [f"dmsetup remove --retry {NAME}"] * 2),
    ],
)
def test_a_mapping_is_removed_when_its_making_or_removal_is_interrupted(
    ends: dict[str, BaseException | str], last: list[str]
) -> None:
    programs = Programs(**ends)
    with pytest.raises(KeyboardInterrupt):
        mapped(programs)
    assert [line for line in programs.ran if "remove" in line] == last


def test_a_mapping_that_was_never_made_is_not_missed(capsys: pytest.CaptureFixture[str]) -> None:
    ends = {"dmsetup_create": refused("dmsetup", "create"), "dmsetup_remove": refused("dmsetup", "remove")}
    assert not mappings.knows("both", DEVICE, Programs(**ends, dmsetup_info=refused("dmsetup", "info")), read_only=True)
    assert capsys.readouterr().out == ""


def test_what_cannot_be_removed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    programs = Programs(dmsetup_table=SHOWN, dmsetup_remove=refused("dmsetup", "remove"))
    with pytest.raises(UserError, match=f"(?s)LEFT BEHIND: the mapping {NAME}: .*to undo it: dmsetup remove"):
        mapped(programs)
    assert capsys.readouterr().out == ""
    with pytest.raises(KeyboardInterrupt):  # what went wrong first
        mapped(programs, KeyboardInterrupt())
    assert f"to undo it: dmsetup remove --retry {NAME}" in capsys.readouterr().out


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No modules, no RAM disk, and a configfs of plain directories."""
    for name, path in (("MODULES", "module"), ("CONFIGFS", "nullb"), ("RAM_DISK", "ram0")):
        monkeypatch.setattr(f"dmcrypt_inline.bench.inguest.devices.{name}", tmp_path / path)
    (tmp_path / "nullb").mkdir()
    (tmp_path / "module").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", ["brd", "null_blk"])
def test_a_module_is_unloaded_when_its_loading_is_interrupted(sysfs: Path, name: str) -> None:
    programs = Programs(rmmod="")

    def run_program(argv: Sequence[str]) -> Completed:
        programs(argv)
        if argv[0] == "modprobe":
            (sysfs / "module" / name).mkdir()
            raise KeyboardInterrupt
        return Completed(tuple(argv), 0, "", 0.0)

    with pytest.raises(KeyboardInterrupt), opened(name, run_program):
        pass
    assert programs.ran[1:] == [f"rmmod {name}"]


def test_a_driver_that_was_loaded_stays(sysfs: Path) -> None:
    (sysfs / "module" / "null_blk").mkdir()
    (sysfs / "nullb").rmdir()
    programs = Programs()
    with pytest.raises(UserError, match="null_blk gives no device"), opened("null_blk", programs):
        pass
    assert programs.ran == []


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (["ram0"], "there are RAM disks already"),
        (["module/brd"], "built into this kernel"),
        (["module/brd", "module/brd/initstate"], "there are RAM disks already"),
    ],
)
def test_ram_disks_of_others_are_left_alone(sysfs: Path, there: list[str], why: str) -> None:
    for name in there:
        (sysfs / name).mkdir()
    programs = Programs()
    with pytest.raises(UserError, match=why), opened("brd", programs):
        pass
    assert programs.ran == []
