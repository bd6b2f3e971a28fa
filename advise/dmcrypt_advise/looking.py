"""All that is looked at on the machine, as facts to judge."""

from __future__ import annotations

from dataclasses import dataclass

from . import ciphers, disks, initramfs, kernel, mappings, stored
from .ciphers import Driver
from .disks import Stack
from .kernel import Kernel
from .mappings import Mapping
from .stored import Stored
from .system import System


@dataclass(frozen=True)
class Found:
    """One mapping and what there is around it. `driver` is None where the table or the driver was not seen."""

    mapping: Mapping
    stack: Stack
    driver: Driver | None
    stored: Stored
    used_for: str
    holds_lvm: bool


@dataclass(frozen=True)
class Facts:
    """The machine. `unseen`: what could not be looked at, and why, a line each."""

    kernel: Kernel
    audit: bool
    found: tuple[Found, ...]
    unseen: tuple[str, ...]


def look(system: System) -> Facts:
    """Look at everything. Nothing is changed, nothing asked for that needs a passphrase."""
    every = mappings.look(system)
    running = kernel.look(system, dm_crypt=bool(every))
    image = initramfs.look(system, running.release) if every else ("", {})
    found = tuple(
        Found(
            mapping=mapping,
            stack=disks.walk_down(system, mapping.node),
            driver=ciphers.serving(system, mapping.segments[0].cipher) if mapping.segments else None,
            stored=stored.look(system, mapping, image),
            used_for=disks.used_for(system, mapping.node, mapping.name),
            holds_lvm=disks.holds_lvm(system, mapping.node),
        )
        for mapping in every
    )
    if not every and not system.names("/sys/block"):
        system.miss("disks: nothing in /sys/block, as in a container")
    return Facts(running, system.path("/proc/self/loginuid").exists(), found, tuple(system.unseen))
