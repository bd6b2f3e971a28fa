"""The devices under test, made from their names in a Load, and taken away again."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...common.cleanup import retried, undone
from ...common.errors import UserError
from ...common.run import Completed

MIB = 1 << 20
SIZE = 64 * MIB  # of each device under test, except the user's
LARGEST = str(MIB >> 9)  # request that null_blk takes, in sectors, where it can be told; else it is 127 KiB
CONFIGFS = Path("/sys/kernel/config/nullb")
BLOCK = Path("/sys/class/block")
DEV = Path("/dev")
MODULES = Path("/sys/module")
RAM_DISK = Path("/dev/ram0")
SERIAL = "dmcrypt-bench"  # of the guest's emulated disks

Run = Callable[[Sequence[str]], Completed]


class Unsupported(UserError):
    """The device cannot be set up as a load wants it; others can be measured."""


# Emulated disks: what they are called in the guest, and the attribute in sysfs with their serial number.
DISKS = {"nvme": ("nvme0n1", "device/serial"), "virtio-blk": ("vda", "serial")}


@dataclass(frozen=True)
class Device:
    """A block device under test: its node, and its size in sectors of 512 bytes."""

    node: str
    sectors: int

    @property
    def queue(self) -> Path:
        """Its attributes in sysfs; a partition has those of its disk."""
        return (self._place.parent if self.partition else self._place) / "queue"

    @property
    def partition(self) -> bool:
        """Whether it is a partition."""
        return (self._place / "partition").exists()

    @property
    def _place(self) -> Path:
        return (BLOCK / Path(self.node).resolve().name).resolve()


@contextmanager
def opened(name: str, run: Run) -> Iterator[Device]:
    """The device `name`, ready to be measured; what was made for it is removed at the end.

    Raises UserError when it cannot be made or is not there.
    """
    kind, *words = name.split()
    if kind == "brd":
        with _ram_disk(run) as node:
            yield _device(node, run)
    elif kind == "null_blk":
        with _null_block(dict(word.split("=") for word in words), run) as node:
            yield _device(node, run)
    elif kind in DISKS:
        device = _emulated(kind, run)
        _fill(device)
        yield device
    else:
        raise UserError(f"unknown device to measure on: {name}")


@contextmanager
def set_up(device: Device, scheduler: str, max_sectors_kb: int) -> Iterator[None]:
    """The device's queue with this scheduler and request size ("" and 0: as they are), put back at the end.

    Raises Unsupported when it cannot have them.
    """
    with ExitStack() as stack:
        for name, value in {"scheduler": scheduler, "max_sectors_kb": str(max_sectors_kb or "")}.items():
            path = device.queue / name
            before = _chosen(path) if value else ""
            if before == value:
                continue
            if device.partition:
                raise Unsupported(f"{device.node} is a partition: its disk has {name} {before}, which is not changed")
            put_back = partial(_write, path, before)
            stack.enter_context(undone(f"{name} of {device.node}", put_back, f"echo {before} >{path}"))
            try:
                path.write_text(value)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOENT):
                    raise UserError(f"{path} does not take {value!r}: {error.strerror}") from error
                raise Unsupported(f"{device.node} cannot have {name} {value}: {error.strerror}") from error
            if _chosen(path) != value:
                raise Unsupported(f"{device.node} cannot have {name} {value}: it has {_chosen(path)}")
        yield


def _chosen(path: Path) -> str:
    """What an attribute of a queue has; of several words, the one in brackets."""
    try:
        text = path.read_text().strip()
    except FileNotFoundError as error:
        raise Unsupported(f"there is no {path}") from error
    chosen = re.search(r"\[(.+?)\]", text)
    return chosen[1] if chosen else text


def _device(node: str, run: Run) -> Device:
    if not Path(node).is_block_device():
        raise UserError(f"{node} is not there, or is no block device")
    return Device(node, int(run(["blockdev", "--getsz", node]).output))


def _emulated(kind: str, run: Run) -> Device:
    """Raises UserError unless guest_run.py gave the guest this disk: on a host, the name is somebody's disk."""
    name, attribute = DISKS[kind]
    node = str(DEV / name)
    try:
        serial = (BLOCK / name / attribute).read_text().strip()
    except OSError as error:
        raise UserError(f"{node} has no serial number: {error}") from error
    if serial != SERIAL:
        raise UserError(f"{node} is not the disk made for measuring: its serial number is {serial!r}")
    device = _device(node, run)
    if device.sectors != SIZE >> 9:
        raise UserError(f"{node} is not the disk made for measuring: it has {device.sectors} sectors")
    return device


@contextmanager
def _ram_disk(run: Run) -> Iterator[str]:
    """Raises UserError when there are RAM disks already: their data would be overwritten."""
    brd = MODULES / "brd"
    if brd.exists() and not (brd / "initstate").exists():
        raise UserError(
            "brd is built into this kernel: its RAM disks cannot be told from the user's\n"
            "  choose a PLAN= without them (w3, w4)"
        )
    if brd.exists() or RAM_DISK.exists():
        raise UserError(f"there are RAM disks already ({RAM_DISK}), their data would be lost: rmmod brd first")
    with undone("the module brd", partial(_unload, "brd", run), "rmmod brd"):
        run(["modprobe", "brd", "rd_nr=1", f"rd_size={SIZE >> 10}"])
        if not RAM_DISK.is_block_device():
            raise UserError(f"the module brd made no {RAM_DISK}")
        _fill(Device(str(RAM_DISK), SIZE >> 9))  # so that every page is there before anything is measured
        yield str(RAM_DISK)


@contextmanager
def _null_block(settings: dict[str, str], run: Run) -> Iterator[str]:
    """A device of its own: others of the same driver are left alone, and the driver too if it was loaded."""
    place = CONFIGFS / f"dmcrypt-inline-{os.getpid()}"
    with ExitStack() as stack:
        if not (MODULES / "null_blk").exists():
            stack.enter_context(undone("the module null_blk", partial(_unload, "null_blk", run), "rmmod null_blk"))
            run(["modprobe", "null_blk", "nr_devices=0"])
        stack.enter_context(undone(f"null_blk's {place}", partial(_remove_null_block, place), f"rmdir {place}"))
        try:
            place.mkdir()
        except OSError as error:
            raise UserError(f"null_blk gives no device: {place}: {error.strerror}\n  is configfs mounted?") from error
        largest = {"max_sectors": LARGEST} if (place / "max_sectors").exists() else {}
        for key, value in {"size": str(SIZE // MIB), "blocksize": "512", **largest, **settings}.items():
            _write(place / key, value)
        _write(place / "power", "1")
        # Newer kernels name the node after the directory.
        numbered = f"/dev/nullb{(place / 'index').read_text().strip()}"
        named = f"/dev/{place.name}"
        node = named if Path(named).exists() else numbered
        if settings.get("memory_backed") == "1":
            _fill(Device(node, SIZE >> 9))
        yield node


def _remove_null_block(place: Path) -> None:
    if place.exists():
        with suppress(OSError):
            (place / "power").write_text("0")
        place.rmdir()


def _unload(module: str, run: Run) -> None:
    """Only this module: modprobe -r would take those that it needs, too."""
    if (MODULES / module).exists():
        retried(partial(run, ["rmmod", module]))


def _fill(device: Device) -> None:
    block = os.urandom(MIB)
    with open(device.node, "wb", buffering=0) as sink:  # noqa: PTH123
        for _ in range(device.sectors * 512 // MIB):
            sink.write(block)
        os.fsync(sink.fileno())


def _write(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except OSError as error:
        raise UserError(f"{path} does not take {value!r}: {error.strerror}") from error
