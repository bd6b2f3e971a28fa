"""Recorded machines, in the form that `dmcrypt_advise.recording` explains."""

from collections.abc import Mapping
from pathlib import Path

from dmcrypt_advise.recording import load
from dmcrypt_advise.system import System

MACHINES = Path(__file__).parent / "machines"
LAPTOP = "debian-12-laptop"  # its only mapping is NAME, with UUID
NAME = "nvme0n1p3_crypt"
UUID = "11111111-2222-3333-4444-555555555555"
ONE_QUEUE = {"/nvme0n1/mq/1/": "/nvme0n1/other/"}  # the disk completes in softirqs: both flags help


def machine(name: str, place: Path, changed: Mapping[str, str] | None = None) -> System:
    """Write the machine `name` below `place`. `changed` replaces texts, which must exist."""
    text = (MACHINES / f"{name}.txt").read_text()
    for old, new in (changed or {}).items():
        assert old in text
        text = text.replace(old, new)
    return load(text, place)
