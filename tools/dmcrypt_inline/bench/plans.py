"""The plans of make bench: fio job files, each with the device and the mappings that it runs on.

W1 is the posting of 2020, W2 the comparison made for kernel 5.9, W3 the parallel random I/O of the patches of 2013,
W4 the access time reported in 2011, W5 the mixed load of a server reported in 2020. Sizes and times suit an emulated
guest: devices of 64 MiB, samples of less than a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..common.errors import UserError
from .inguest import BRD, MODES, NULL, NVME, RAW, VIRTIO

P = TypeVar("P")
AES = "aes-xts-plain64"
SCHEDULED = "null_blk irqmode=0 memory_backed=1"  # brd has no request queue, so no scheduler
FLAGS = ("default", "no_read", "no_write", "both")
BOTH = ("default", "both")


@dataclass(frozen=True)
class Part:
    """One job file on one device, and the mappings over that device which are compared.

    `jobs` is a file of tools/fio, `sections` names those of its sections that run (default: all). `modes` are those of
    every variant except a base without the flags, which has its default path only. `raw`: measure the device itself,
    too. `seconds` is the time of a sample. `busy` CPUs run other work meanwhile. `scheduler` and `max_sectors_kb` are
    set in the device's queue ("" and 0: unchanged).
    """

    workload: str
    jobs: str
    modes: tuple[str, ...]
    device: str = BRD
    cipher: str = NULL
    sector_size: int = 512
    sections: tuple[str, ...] = ()
    raw: bool = True
    seconds: float = 0.6
    busy: int = 0
    scheduler: str = ""
    max_sectors_kb: int = 0

    @property
    def setting(self) -> str:
        """The device and the mappings in words."""
        words = [self.device, f"{self.cipher} cipher", f"sectors of {self.sector_size}"]
        words += [f"scheduler {self.scheduler}"] if self.scheduler else []
        words += [f"requests up to {self.max_sectors_kb} KiB"] if self.max_sectors_kb else []
        words += [f"{self.busy} CPUs busy"] if self.busy else []
        return ", ".join(words)

    def runs(self, variants: Sequence[str], *, base_has_flags: bool) -> list[tuple[str, str]]:
        """The cells of the part, variant and mode of each, in the order of an odd round."""
        found = [(RAW, RAW)] if self.raw else []
        for variant in variants:
            modes = ("default",) if variant == "base" and not base_has_flags else self.modes
            found += [(variant, mode) for mode in modes]
        return found


@dataclass(frozen=True)
class Plan:
    """The parts to measure, and how many rounds of each."""

    parts: tuple[Part, ...]
    rounds: int = 5  # fewer cannot show a difference: see ERROR in report/statistics.py


SMALL = ("read-4k", "write-4k")
QUICK = Part("W1", "w1.fio", FLAGS, sections=SMALL)
W1 = (Part("W1", "w1.fio", FLAGS), Part("W1", "w1.fio", BOTH, sector_size=4096))
W2 = tuple(Part("W2", "w1.fio", tuple(MODES), cipher=cipher) for cipher in (NULL, AES))
W3 = (
    *(Part("W3", "w3.fio", BOTH, SCHEDULED, scheduler=name) for name in ("none", "mq-deadline", "bfq", "kyber")),
    # null_blk of old kernels takes no request of more than 127 KiB.
    *(Part("W3", "w3.fio", BOTH, VIRTIO, max_sectors_kb=size) for size in (4, 8, 64, 1024)),
)
W4_DEVICES = (
    *("null_blk irqmode=2 completion_nsec=10000", "null_blk irqmode=2 completion_nsec=100000"),
    *("null_blk irqmode=1", "null_blk irqmode=0", NVME, VIRTIO),
)
# Long enough for the 99.9th percentile of the default path.
W4 = tuple(Part("W4", "w4.fio", ("default", "no_read"), device, seconds=3.0) for device in W4_DEVICES)
W5 = tuple(Part("W5", "w5.fio", BOTH, device, AES, busy=2, seconds=2.0) for device in (BRD, NVME))
# The price of fixes in each mode, for a base that knows the flags.
COST = (
    Part("W1", "w1.fio", FLAGS, raw=False),
    *(replace(part, sections=SMALL, raw=False) for part in W2),
)

PLANS: Mapping[str, Plan] = {
    "quick": Plan((QUICK,), rounds=8),
    "w1": Plan(W1),
    "w2": Plan(W2),
    "w3": Plan(W3),
    "w4": Plan(W4),
    "w5": Plan(W5),
    "cost": Plan(COST),
    "full": Plan((QUICK, *W2, *W3, *W4, *W5)),  # W2 has the other sizes of W1
}


def get_plan(plans: Mapping[str, P], name: str) -> P:
    """The plan of this name. Raises UserError for an unknown name."""
    if name not in plans:
        raise UserError(f"unknown plan: {name}\n  with this ACCEL= PLAN= takes one of: {', '.join(plans)}")
    return plans[name]
