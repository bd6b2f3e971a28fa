"""What a mapping lies on: down through partitions, LVM, RAID and other mappings to the disks themselves."""

from __future__ import annotations

from dataclasses import dataclass

from .system import System

VIRTUAL = ("vd", "xvd")  # their "rotational" is the host's guess, or nobody's
MEMORY = ("ram", "zram", "null_blk", "nullb", "pmem")


@dataclass(frozen=True)
class Disk:
    """A disk at the bottom of a stack. Sizes in bytes; `in_interrupts`: it may complete in hard interrupts."""

    name: str
    rotational: bool
    logical: int
    physical: int
    in_interrupts: bool
    polled: bool
    zoned: bool
    scheduler: str
    transport: str

    @property
    def virtual(self) -> bool:
        """Whether a host decides what it is."""
        return self.name.startswith(VIRTUAL)

    @property
    def words(self) -> str:
        """As a person would say it."""
        kind = {"nvme": "NVMe", "sata": "SATA", "usb": "USB", "virtio": "virtual", "sas": "SAS"}.get(self.transport, "")
        kind = kind or ("virtual" if self.virtual else "memory" if self.name.startswith(MEMORY) else "disk")
        turns = "rotational" if self.rotational else "not rotational"
        return f"{self.name}: {kind}, {turns}, sectors {self.logical}/{self.physical}" + ", zoned" * self.zoned


@dataclass(frozen=True)
class Stack:
    """All that a mapping lies on, uppermost first (kernel names), and the disks at the bottom."""

    layers: tuple[str, ...]
    disks: tuple[Disk, ...]


def below(system: System, name: str) -> list[str]:
    """What a device lies directly on: its slaves, or the disk of a partition; nothing for a disk."""
    if slaves := system.names(f"/sys/block/{name}/slaves"):
        return slaves
    if name in (disks := system.names("/sys/block")):
        return []
    return [disk for disk in disks if name in system.names(f"/sys/block/{disk}")]


def walk_down(system: System, name: str) -> Stack:
    """The stack under a device, without itself."""
    layers: list[str] = []
    bottom: list[str] = []
    todo = below(system, name)
    while todo:
        one = todo.pop(0)
        if one in layers:
            continue
        layers.append(one)
        further = below(system, one)
        todo += further
        if not further:
            bottom.append(one)
    transports = _transports(system) if bottom else {}
    return Stack(tuple(layers), tuple(look(system, disk, transports.get(disk, "")) for disk in bottom))


def look(system: System, name: str, transport: str = "") -> Disk:
    """One disk, from /sys."""
    queue = f"/sys/block/{name}/queue"
    zoned = system.word(f"{queue}/zoned")
    scheduler = system.word(f"{queue}/scheduler")
    # The kernel takes disks with one queue to softirqs, but not where only one CPU can submit to it. A disk without
    # queues stands for others, as NVMe does for its paths.
    one_cpu = system.word("/sys/devices/system/cpu/possible") == "0"
    return Disk(
        name=name,
        rotational=system.word(f"{queue}/rotational") == "1",
        logical=int(system.word(f"{queue}/logical_block_size") or 512),
        physical=int(system.word(f"{queue}/physical_block_size") or 512),
        in_interrupts=one_cpu or len(system.names(f"/sys/block/{name}/mq")) != 1,
        polled=system.word(f"{queue}/io_poll") == "1",
        zoned=zoned not in ("", "none"),
        scheduler=scheduler.partition("[")[2].partition("]")[0],
        transport=transport,
    )


def above(system: System, node: str) -> list[str]:
    """A device and all that is made of it."""
    found, todo = [], [node]
    while todo:
        found.append(todo.pop(0))
        todo += system.names(f"/sys/block/{found[-1]}/holders")
    return found


def holds_lvm(system: System, node: str) -> bool:
    """Whether a volume of LVM is made of a device."""
    return any(system.word(f"/sys/block/{each}/dm/uuid").startswith("LVM-") for each in above(system, node))


def used_for(system: System, node: str, name: str) -> str:
    """What is on a mapping: a mount point, or swap; "" where neither was found, on it or on what is made of it."""
    tops = [each for each in above(system, node) if not system.names(f"/sys/block/{each}/holders")]
    swaps = {line.split()[0] for line in (system.read("/proc/swaps") or "").splitlines() if line.strip()}
    mounts = [line.split() for line in (system.read("/proc/self/mounts") or "").splitlines() if line.count(" ") > 2]
    for top in tops:
        label = system.word(f"/sys/block/{top}/dm/name") or name
        devices = {f"/dev/mapper/{label}", f"/dev/{top}"}
        if devices & swaps:
            return "swap"
        places = [(place, kind) for device, place, kind, *_ in mounts if device in devices]
        if places:
            place, kind = min(places, key=lambda it: len(it[0]))
            return f"{place} ({kind})" + (f" on {label}" if top != node else "")
    return ""


def _transports(system: System) -> dict[str, str]:
    """By disk: nvme, sata, usb, virtio, as lsblk has it. It is only said, never judged by."""
    said = system.ask(("lsblk", "--nodeps", "--noheadings", "--output", "NAME,TRAN"), "how disks are attached") or ""
    return {words[0]: words[1] for line in said.splitlines() if len(words := line.split()) > 1}
