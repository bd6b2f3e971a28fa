"""Collect all facts about the machine."""

from dataclasses import dataclass

from . import ciphers, disks, initramfs, kernel, mappings, opening, stored
from .ciphers import CipherDriver
from .defects import Version
from .disks import Disk
from .initramfs import Image
from .kernel import RunningKernel
from .mappings import Mapping
from .stored import StoredOptions
from .system import System

FLAGS_IN_CRYPTSETUP: Version = (2, 3, 4)  # the first version with options for the two flags


@dataclass(frozen=True)
class MappingFacts:
    """One mapping and its surroundings.

    `driver` is None if the table or the driver is unknown. `cryptsetup`: the installed version, () if unknown.
    """

    mapping: Mapping
    disks: tuple[Disk, ...]
    driver: CipherDriver | None
    stored: StoredOptions
    used_for: str
    holds_lvm: bool
    cryptsetup: Version = ()


@dataclass(frozen=True)
class Facts:
    """The machine. `unseen`: a line for each thing that could not be read, with the reason."""

    kernel: RunningKernel
    audit: bool
    mappings: tuple[MappingFacts, ...]
    unseen: tuple[str, ...]


def look(system: System) -> Facts:
    """Collect the facts. Changes nothing and runs no program that asks for a passphrase."""
    open_ones = mappings.open_mappings(system)
    running = kernel.running_kernel(system, dm_crypt=bool(open_ones))
    image = initramfs.find_initramfs(system, running.release) if open_ones else Image("", {})
    cryptsetup = opening.installed(system, "cryptsetup") if open_ones else ()
    if () < cryptsetup < FLAGS_IN_CRYPTSETUP:  # with the patches of this project, an older version knows the flags, too
        known = "--perf-no_read_workqueue" in (system.ask(("cryptsetup", "--help"), "") or "")
        cryptsetup = FLAGS_IN_CRYPTSETUP if known else cryptsetup
    found = tuple(
        MappingFacts(
            mapping=mapping,
            disks=disks.disks_below(system, mapping.node),
            driver=ciphers.cipher_driver(system, mapping.segments[0].cipher) if mapping.segments else None,
            stored=stored.stored_options(system, mapping, image),
            used_for=disks.used_for(system, mapping.node, mapping.name),
            holds_lvm=disks.holds_lvm(system, mapping.node),
            cryptsetup=cryptsetup,
        )
        for mapping in open_ones
    )
    if not open_ones and not system.names("/sys/block"):
        system.miss("disks: /sys/block is empty, as in a container")
    return Facts(running, system.exists("/proc/self/loginuid"), found, tuple(system.unseen))
