"""devices.py: which devices are measured, and what of them is changed."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dmcrypt_inline.bench import guest_run
from dmcrypt_inline.bench.inguest import labels, measure
from dmcrypt_inline.bench.inguest.devices import DISKS, SERIAL, SIZE, Device, Unsupported, opened, set_up
from dmcrypt_inline.bench.inguest.measurements import RAW, Load, Sample
from dmcrypt_inline.bench.inguest.orders import Order, Variant
from dmcrypt_inline.bench.inguest.sampling import Sampler
from dmcrypt_inline.bench.inguest.userdevice import UserDevice
from dmcrypt_inline.bench.inguest.workloads import NULL, Cell, Plan
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.run import Completed


def nothing(argv: Sequence[str]) -> Completed:
    raise AssertionError(f"nothing may be run: {argv}")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The disk "nvme" is a file, and has an empty directory in sysfs."""
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.devices.DEV", tmp_path)
    node = tmp_path / "disk"
    node.write_bytes(b"mine")
    (tmp_path / "sysfs" / "disk").mkdir(parents=True)
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.devices.BLOCK", tmp_path / "sysfs")
    monkeypatch.setitem(DISKS, "nvme", ("disk", "serial"))
    return node


@pytest.mark.parametrize(
    ("serial", "sectors", "why"),
    [
        (None, SIZE >> 9, "has no serial number"),
        ("S4EWNX0N", SIZE >> 9, "serial number is 'S4EWNX0N'"),
        (SERIAL, (SIZE >> 9) + 1, "it has 131073 sectors"),
    ],
)
def test_a_disk_that_only_has_the_name_is_not_written_to(
    disk: Path, serial: str | None, sectors: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.devices._device", lambda node, _: Device(node, sectors))
    if serial is not None:
        (disk.parent / "sysfs" / "disk" / "serial").write_text(f"{serial}     \n")
    with pytest.raises(UserError, match=why), opened("nvme", nothing):
        pass
    assert disk.read_bytes() == b"mine"


def test_a_user_s_device_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not there"), opened(str(tmp_path / "none"), nothing):
        pass


def test_the_disk_made_for_measuring_is_filled(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.devices._device", lambda node, _: Device(node, SIZE >> 9))
    (disk.parent / "sysfs" / "disk" / "serial").write_text(f"{SERIAL}     \n")
    with opened("nvme", nothing) as device:
        assert device == Device(str(disk), SIZE >> 9)
    assert disk.stat().st_size == SIZE


def test_the_guest_gets_the_disks_that_are_looked_for() -> None:
    assert set(guest_run.DISKS) == set(DISKS)
    assert all(f"serial={SERIAL}" in argument for argument in guest_run.DISKS.values())
    assert guest_run.DISK_SIZE == SIZE


@dataclass(frozen=True)
class Queue:
    """The queue of the disk sdz, which has the partition sdz1, as directories in a sysfs."""

    place: Path

    def device(self, name: str = "sdz") -> Device:
        return Device(f"/dev/{name}", 8)

    def now(self) -> tuple[str, str]:
        return (self.place / "scheduler").read_text(), (self.place / "max_sectors_kb").read_text()


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    place = tmp_path / "devices" / "sdz" / "queue"
    place.mkdir(parents=True)
    (place / "scheduler").write_text("none [mq-deadline] kyber\n")
    (place / "max_sectors_kb").write_text("1280\n")
    part = tmp_path / "devices" / "sdz" / "sdz1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    (tmp_path / "class").mkdir()
    for each in (part, part.parent):
        (tmp_path / "class" / each.name).symlink_to(each)
    monkeypatch.setattr("dmcrypt_inline.bench.inguest.devices.BLOCK", tmp_path / "class")
    return Queue(place)


def refusing(code: int, value: str) -> Callable[[Path, str], int]:
    """Path.write_text, but `value` ends with this error, or changes nothing if that is 0."""
    write = Path.write_text

    def write_text(path: Path, text: str) -> int:
        if text != value:
            return write(path, text)
        if code:
            raise OSError(code, os.strerror(code))
        return 0

    return write_text


def test_a_queue_is_put_back(queue: Queue) -> None:
    before = queue.now()
    with set_up(queue.device(), "kyber", 8):
        assert queue.now() == ("kyber", "8")
    assert [text.split() for text in queue.now()] == [["mq-deadline"], before[1].split()]


@pytest.mark.parametrize(("scheduler", "kib"), [("bfq", 0), ("kyber", 512)])
@pytest.mark.parametrize("code", [errno.EINVAL, 0])
def test_what_a_queue_cannot_have(
    queue: Queue, scheduler: str, kib: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", refusing(code, str(kib or scheduler)))
    why = "Invalid argument" if code else "it has "
    with pytest.raises(Unsupported, match=f"cannot have .*: {why}"), set_up(queue.device(), scheduler, kib):
        pass
    assert [text.strip() for text in queue.now()] == ["mq-deadline", "1280"]


def test_other_errors_of_a_queue_end_everything(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_text", refusing(errno.EACCES, "8"))
    with (
        pytest.raises(UserError, match="does not take '8': Permission denied") as caught,
        set_up(queue.device(), "", 8),
    ):
        pass
    assert not isinstance(caught.value, Unsupported)


def test_a_device_without_a_queue(queue: Queue) -> None:
    with pytest.raises(Unsupported, match=r"there is no .*/queue/scheduler"), set_up(queue.device("ram0"), "none", 0):
        pass
    with set_up(queue.device("ram0"), "", 0):
        pass


def test_a_partition_leaves_the_queue_of_its_disk_alone(queue: Queue) -> None:
    before = queue.now()
    with set_up(queue.device("sdz1"), "mq-deadline", 1280):  # as it is
        assert queue.now() == before
    for scheduler, kib in (("none", 0), ("", 8)):
        with pytest.raises(Unsupported, match="is a partition"), set_up(queue.device("sdz1"), scheduler, kib):
            pass
    assert queue.now() == before


LOADS = [
    replace(Load("W3", "sdz", NULL, 512, "randrw", (4096, 4096), 1, 1), scheduler=name) for name in ("bfq", "none")
]
ONLY_RAW = Variant("running", (), "", strict=True)  # has none of the cells


@pytest.fixture
def steps(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The disk sdz can be opened, which is noted, and fio leaves samples that never settle."""
    noted: list[object] = []

    @contextmanager
    def opened_disk(name: str, _: object) -> Iterator[Device]:
        noted.append(f"opened {name}")
        yield queue.device()

    def samples(_: object, runs: Sequence[object], _plan: Plan, number: int, *__: object) -> list[Sample]:
        return [Sample(number, 1.0, number << 20, 1, {}, {}, {}, 0) for _ in runs]

    monkeypatch.setattr("dmcrypt_inline.bench.inguest.devices.opened", opened_disk)
    monkeypatch.setattr(Sampler, "samples", samples)
    return noted


def session(place: Path, loads: Sequence[Load], rounds: int = 1, more: bool = True) -> measure.Session:
    plan = Plan("small", tuple(Cell(load, RAW, RAW) for load in loads), 60.0, rounds=rounds, more=more)
    place.mkdir(exist_ok=True)
    return measure.Session(Order(plan, (ONLY_RAW,), ""), place, Sampler(place, read_only=False), time.monotonic() + 60)


@pytest.mark.usefixtures("steps")
def test_what_cannot_be_set_up_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "write_text", refusing(errno.EINVAL, "bfq"))
    why = f"without {labels.describe(LOADS[0])}: /dev/sdz cannot have scheduler bfq: Invalid argument"
    both = session(tmp_path / "both", LOADS, more=False)
    assert both.measure() == why
    assert why in capsys.readouterr().out.splitlines()
    lines = (tmp_path / "both" / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["load"]["scheduler"] for line in lines] == ["none"]
    with pytest.raises(UserError, match="nothing could be measured: without randrw"):
        session(tmp_path / "one", LOADS[:1]).measure()


def test_the_user_s_device_is_looked_at_again_before_it_is_opened(
    tmp_path: Path, steps: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_again(device: UserDevice, _: object, *, writes: bool) -> None:
        steps.append((device, writes))
        if len(steps) > 2:
            raise UserError("another device")

    monkeypatch.setattr("dmcrypt_inline.bench.inguest.measure.check_again", check_again)
    device = UserDevice("/dev/sdz", 2048)
    loads = [replace(load, scheduler="", cpu_load=number) for number, load in enumerate(LOADS)]  # two parts
    plan = session(tmp_path, loads, more=False).order.plan
    with pytest.raises(UserError, match="another device"):
        measure.measure(Order(plan, (ONLY_RAW,), "", False, device), tmp_path / "results")
    assert steps == [(device, False), "opened /dev/sdz", (device, False)]
