"""What is measured, as data: the workloads W1 to W5, the curves, and the plans made of them.

W1 is the posting of 2020, W2 the comparison made for kernel 5.9, W3 the parallel
random I/O of the patches of 2013, W4 the access time reported in 2011, W5 the mixed
load of a server reported in 2020. Sizes and times are shortened for a guest that
may be emulated: RAM disks of 64 MiB, samples of 0.6 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ...common.errors import UserError
from .measurements import MODES, RAW, Load

KIB, MIB = 1 << 10, 1 << 20

BASE, QUEUE = "base", "queue"
NULL = "null"
AES = "aes-xts-plain64"
BRD = "brd"
MEMORY = "null_blk irqmode=0 memory_backed=1"  # what brd lacks: a request queue with a scheduler
NVME, VIRTIO = "nvme", "virtio-blk"

INLINE = ("no_read", "no_write", "both")
SCHEDULERS = ("none", "mq-deadline", "bfq", "kyber")

# fio's words for half of the jobs each.
READERS_AND_WRITERS = "randread,randwrite"


@dataclass(frozen=True)
class Cell:
    """One load on one kind of variant in one mode.

    `kind` is RAW (the device itself, mode RAW too), BASE, or QUEUE: every variant that is not the base.
    """

    load: Load
    kind: str
    mode: str


@dataclass(frozen=True)
class Plan:
    """What to measure and for how long.

    `seconds` limits the whole measurement, boot and builds apart; `runtime` and
    `warm_up` are of one sample, in seconds. A load is repeated at least `rounds`
    times, then, with `more`, until each of its cells spreads less than `within` of its median.
    Five rounds is the least that can tell a difference (see stats.ERROR).
    """

    name: str
    cells: tuple[Cell, ...]
    seconds: float
    runtime: float = 0.6
    warm_up: float = 0.1
    rounds: int = 5
    within: float = 0.03
    more: bool = True


def _cells(loads: Iterable[Load], queue: Sequence[str], *, raw: bool = True) -> tuple[Cell, ...]:
    """Each load on the raw device, on the base's default path, and on the queue's modes."""
    cells: list[Cell] = []
    for load in loads:
        cells += [*([Cell(load, RAW, RAW)] if raw else []), Cell(load, BASE, "default")]
        cells += [Cell(load, QUEUE, mode) for mode in queue]
    return tuple(cells)


def _simple(
    workload: str, rw: str, size: int, *, cipher: str = NULL, sector_size: int = 512, device: str = BRD
) -> Load:
    """One job with one request at a time."""
    return Load(workload, device, cipher, sector_size, rw, (size, size), 1, 1)


SIZES = (4 * KIB, 64 * KIB, MIB)
READ_WRITE = ("read", "write")

W1_QUICK = _cells((_simple("W1", rw, 4 * KIB) for rw in READ_WRITE), ("default", *INLINE))
W1 = _cells((_simple("W1", rw, size) for size, rw in product(SIZES, READ_WRITE)), ("default", *INLINE)) + _cells(
    (_simple("W1", rw, size, sector_size=4096) for size, rw in product(SIZES, READ_WRITE)), ("default", "both")
)

W2 = _cells(
    (_simple("W2", rw, size, cipher=cipher) for cipher, size, rw in product((NULL, AES), SIZES, READ_WRITE)),
    tuple(MODES),
)

# What fixes may cost each mode, for a base that knows the flags: the posting's loads, and the matrix at 4k.
COST = _cells(
    (_simple("W1", rw, size) for size, rw in product(SIZES, READ_WRITE)), ("default", *INLINE), raw=False
) + _cells(
    (_simple("W2", rw, 4 * KIB, cipher=cipher) for cipher, rw in product((NULL, AES), READ_WRITE)),
    tuple(MODES),
    raw=False,
)


def _parallel(device: str, scheduler: str = "", max_sectors_kb: int = 0) -> Load:
    """Eleven jobs of random reads and writes of 256 KiB."""
    return Load("W3", device, NULL, 512, "randrw", (256 * KIB, 256 * KIB), 1, 11, scheduler, max_sectors_kb)


# Request sizes on virtio-blk: null_blk of the kernels that are old enough takes no more than 127 KiB.
W3 = _cells(
    (
        *(_parallel(MEMORY, scheduler=name) for name in SCHEDULERS),
        *(_parallel(VIRTIO, max_sectors_kb=number) for number in (4, 8, 64, 1024)),
    ),
    ("default", "both"),
)

# Fixed service times of 10 and 100 us, completions in each context there is, and emulated disks.
W4_DEVICES = (
    "null_blk irqmode=2 completion_nsec=10000",
    "null_blk irqmode=2 completion_nsec=100000",
    "null_blk irqmode=1",
    "null_blk irqmode=0",
    NVME,
    VIRTIO,
)
W4 = _cells((_simple("W4", "randread", 4 * KIB, device=device) for device in W4_DEVICES), ("default", "no_read"))

W5 = _cells(
    (
        Load("W5", device, AES, 512, READERS_AND_WRITERS, (4 * KIB, 128 * KIB), 1, 8, cpu_load=2)
        for device in (BRD, NVME)
    ),
    ("default", "both"),
)

DEPTHS = (1, 8, 64)
JOBS = (1, 2, 8)
CURVE_SIZES = (512, 4 * KIB, 64 * KIB, MIB)


def _curve_loads() -> Iterable[Load]:
    """Each curve varies one thing; those of 4 KiB, one job, one request are where they meet, and are there once."""
    found: dict[Load, None] = {}
    for rw in ("randread", "randwrite"):
        meet = Load("curves", BRD, NULL, 512, rw, (4 * KIB, 4 * KIB), 1, 1, engine="libaio")
        for sector_size, size in product((512, 4096), CURVE_SIZES):
            if size >= sector_size:
                found[replace(meet, sector_size=sector_size, block_sizes=(size, size))] = None
        for depth in DEPTHS:
            found[replace(meet, queue_depth=depth)] = None
        for jobs in JOBS:
            found[replace(meet, jobs=jobs)] = None
    return sorted(found, key=lambda load: load.sector_size)  # those of one mapping together


CURVES = _cells(_curve_loads(), ("both",), raw=False)

# The limits leave time for five rounds, of about two seconds a sample in an emulated guest with two CPUs.
PLANS: Mapping[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan("quick", W1_QUICK, 150),
        Plan("w1", W1, 600),
        Plan("w2", W2, 900),
        Plan("cost", COST, 700, more=False),
        Plan("w3", W3, 500),
        # Long enough for the default path's p99.9; see stats.TAIL.
        Plan("w4", W4, 600, runtime=3.0),
        Plan("w5", W5, 200),
        Plan("curves", CURVES, 600),
        # W1 at other sizes: W2 has them, and the curves the sectors of 4096.
        # Five rounds of all of it are all that it has time for.
        Plan("full", (*W1_QUICK, *W2, *W3, *W4, *W5, *CURVES), 2340, runtime=0.5, more=False),
    )
}


def get_plan(name: str) -> Plan:
    """The plan called `name`; UserError lists the known names otherwise."""
    try:
        return PLANS[name]
    except KeyError:
        raise UserError(f"unknown plan: {name}\n  PLAN= takes one of: {', '.join(PLANS)}") from None
