"""The devices below a mapping: partitions, LVM, RAID, other mappings, and the disks; and the devices above it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from .system import System

# Disks of a hypervisor, which may report any value as "rotational": by name, and by words in vendor and model.
VIRTUAL = ("vd", "xvd")
HYPERVISORS = re.compile(
    r"virtual|vmware|qemu|vbox|\bmsft\b|persistentdisk|nvme_card-pd|elastic block|\bvdisk\b|bhyve|parallels|\bxen", re.I
)
MEMORY = ("ram", "zram", "null_blk", "nullb", "pmem")


@dataclass(frozen=True)
class Disk:
    """A disk at the bottom of a stack. Sizes in bytes; `in_interrupts`: it may complete requests in hard interrupts."""

    name: str
    rotational: bool
    logical: int
    physical: int
    in_interrupts: bool
    polled: bool
    zoned: bool
    transport: str
    model: str = ""

    @property
    def virtual(self) -> bool:
        """True for a disk of a hypervisor."""
        return self.name.startswith(VIRTUAL) or bool(HYPERVISORS.search(self.model))

    @property
    def unreliable(self) -> str:
        """The kind of the disk if its "rotational" can be wrong."""
        return "virtual" if self.virtual else "a USB disk" if self.transport == "usb" else ""

    @property
    def description(self) -> str:
        """The disk for the screen."""
        kind = {"nvme": "NVMe", "sata": "SATA", "usb": "USB", "virtio": "virtual", "sas": "SAS"}.get(self.transport, "")
        kind = kind or ("virtual" if self.virtual else "memory" if self.name.startswith(MEMORY) else "disk")
        medium = "rotational" if self.rotational else "not rotational"
        return f"{self.name}: {kind}, {medium}, sectors {self.logical}/{self.physical}" + ", zoned" * self.zoned


def devices_below(system: System, name: str) -> list[str]:
    """The devices directly below a device: its slaves, or the disk of a partition; none for a disk."""
    if slaves := system.names(f"/sys/block/{name}/slaves"):
        return slaves
    if name in (disks := system.names("/sys/block")):
        return []
    return [disk for disk in disks if system.exists(f"/sys/block/{disk}/{name}")]


def disks_below(system: System, name: str) -> tuple[Disk, ...]:
    """The disks at the bottom of the stack below a device."""
    below = _reached(devices_below(system, name), lambda one: devices_below(system, one))
    bottom = [one for one in below if not devices_below(system, one)]
    output = system.ask(("lsblk", "--nodeps", "--noheadings", "--output", "NAME,TRAN"), "transport of the disks")
    transports = dict(words for line in (output or "").splitlines() if len(words := line.split()) == 2)
    return tuple(read_disk(system, disk, transports.get(disk.replace("!", "/"), "")) for disk in bottom)


def read_disk(system: System, name: str, transport: str = "") -> Disk:
    """A disk as /sys describes it."""
    queue = f"/sys/block/{name}/queue"
    zoned = system.word(f"{queue}/zoned")
    # The kernel completes requests of disks with one queue in softirqs, except if only one CPU can submit to the disk.
    # A disk without queues stands for others, as NVMe multipath does for its paths.
    one_cpu = system.word("/sys/devices/system/cpu/possible") == "0"
    return Disk(
        name=name,
        rotational=system.word(f"{queue}/rotational") == "1",
        logical=int(system.word(f"{queue}/logical_block_size") or 512),
        physical=int(system.word(f"{queue}/physical_block_size") or 512),
        in_interrupts=one_cpu or len(system.names(f"/sys/block/{name}/mq")) != 1,
        polled=system.word(f"{queue}/io_poll") == "1",
        zoned=zoned not in ("", "none"),
        transport=transport,
        model=" ".join(system.word(f"/sys/block/{name}/device/{file}") for file in ("vendor", "model")),
    )


def devices_above(system: System, node: str) -> list[str]:
    """A device and all devices above it."""
    return _reached([node], lambda one: system.names(f"/sys/block/{one}/holders"))


def _reached(devices: list[str], step: Callable[[str], list[str]]) -> list[str]:
    """The devices, then those that `step` leads to from them, and so on; each once."""
    found = list(dict.fromkeys(devices))
    for device in found:  # it grows
        found += [other for other in step(device) if other not in found]
    return found


def holds_lvm(system: System, node: str) -> bool:
    """True if a volume of LVM is above a device."""
    return any(system.word(f"/sys/block/{each}/dm/uuid").startswith("LVM-") for each in devices_above(system, node))


def uses(system: System, node: str, name: str) -> list[tuple[str, str, str]]:
    """The mount points of a mapping and of the devices above it, with file system and volume; swap is one, too."""
    tops = [each for each in devices_above(system, node) if not system.names(f"/sys/block/{each}/holders")]
    swaps = {line.split()[0] for line in (system.read("/proc/swaps") or "").splitlines() if line.strip()}
    mounts = [line.split() for line in (system.read("/proc/self/mounts") or "").splitlines() if line.count(" ") > 2]
    found = []
    for top in tops:
        label = system.word(f"/sys/block/{top}/dm/name") or name
        devices = {f"/dev/mapper/{label}", f"/dev/{top.replace('!', '/')}"}
        volume = label if top != node else ""
        found += [("swap", "", volume)] if devices & swaps else []
        places = [(place, kind, volume) for device, place, kind, *_ in mounts if device in devices]
        found += sorted(places, key=lambda it: len(it[0]))
    return found


def used_for(system: System, node: str, name: str) -> str:
    """The first use of a mapping, for the screen; "" if none is found."""
    for place, kind, volume in uses(system, node, name):
        return place if not kind else f"{place} ({kind})" + (f" on {volume}" if volume else "")
    return ""
