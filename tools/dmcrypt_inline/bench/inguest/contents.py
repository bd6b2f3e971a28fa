"""What is on a block device, as blkid sees it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ...common.run import CommandError
from .devices import Run

NOTHING_FOUND = 2  # blkid's exit status
# What blkid calls data that makes sense only with other devices, or that another device needs;
# so does every type that ends in MEMBER.
MEMBER = "_member"
MEMBERS = (
    *("bcache", "bcachefs", "ceph_bluestore", "drbd", "drbdmanage_control_volume", "drbdproxy_datalog", "jbd"),
    *("DM_integrity", "DM_snapshot_cow", "DM_verity_hash", "mpool", "oracleasm", "stratis", "swsuspend", "vdo"),
    "xfs_external_log",
)
BTRFS_DEVICES = (1 << 16) + 136  # offset in bytes of their number, 64 bits, in the superblock
SEVERAL = "btrfs of several devices"


@dataclass(frozen=True)
class Contents:
    """What lies directly on a device: its `kind` in blkid's words, the kind of partition `table`; "" for none."""

    kind: str = ""
    table: str = ""

    @property
    def member(self) -> bool:
        """Whether other devices may need what is there, now or later."""
        return self.kind.endswith(MEMBER) or self.kind in (*MEMBERS, SEVERAL)


def contents(device: str, run: Run) -> Contents | None:
    """What blkid finds on the device; None when it is not installed or not sure."""
    tags = ("--match-tag", "TYPE", "--match-tag", "PTTYPE")
    try:
        said = run(["blkid", "--probe", "--output", "export", *tags, device]).output
    except CommandError as error:
        return Contents() if error.completed.returncode == NOTHING_FOUND else None
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    kind = found.get("TYPE", "")
    return Contents(SEVERAL if kind == "btrfs" and _btrfs_devices(device) > 1 else kind, found.get("PTTYPE", ""))


def _btrfs_devices(device: str) -> int:
    with Path(device).open("rb") as source:
        return int.from_bytes(os.pread(source.fileno(), 8, BTRFS_DEVICES), "little")
