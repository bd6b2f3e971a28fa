"""Results that nobody measured: made up for the tests of the report, the same every time."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dmcrypt_inline.bench.inguest.measurements import MODES, RAW, Load, Measurement, Results, Sample

KIB, MIB = 1 << 10, 1 << 20
ROUNDS = 6
SECONDS = 2.0  # of a sample
NOISE = 0.02  # how far a sample is off, at most, as a fraction

# Microseconds of a request that a mode adds to a device that takes 10.
ADDED = {RAW: 0, "default": 200, "same_cpu": 210, "submit_from_crypt_cpus": 190, "no_read": 60, "no_write": 70}
ADDED["both"] = 20
POSTING = Load("W1", "brd", "null", 512, "read", (4 * KIB, 4 * KIB), 1, 1)
BOTH_WAYS = ("read", "write")
FOUR = ((RAW, RAW), ("base", "default"), ("series", "default"), ("series", "both"))
EVERY = ((RAW, RAW), ("base", "default"), *(("series", mode) for mode in MODES))


def measurement(load: Load, variant: str, mode: str, speed: float = 1.0, rounds: int = ROUNDS) -> Measurement:
    """One cell; `speed` makes it that many times as fast as the model says."""
    size = sum(load.block_sizes) / 2
    chance = random.Random(f"{load}{variant}{mode}")
    cipher = 0 if load.cipher == "null" or variant == RAW else size / 1024
    sectors = 0 if variant == RAW else size / load.sector_size * 0.1
    service = (10 + ADDED[mode] + cipher + sectors + size / 2048) * (1 + load.cpu_load / 4)
    samples = []
    for number in range(1, rounds + 1):
        taken = service / speed * (1 + chance.uniform(-NOISE, NOISE))
        parallel = min(load.queue_depth * load.jobs, 4) ** 0.7
        ios = int(SECONDS * 1e6 / taken * parallel)
        busy = {"jobs": 0.3, "softirq": 0.05, "irq": 0.02, "other_threads": 0.1, "cryptd": 0.0}
        busy["kcryptd"] = 0.4 if mode in ("default", "same_cpu", "submit_from_crypt_cpus") else 0.05
        busy["write_thread"] = 0.1 if busy["kcryptd"] > 0.1 and load.rw != "read" else 0.0
        if variant == RAW:
            busy |= {"kcryptd": 0.0, "write_thread": 0.0}
        contexts = {name: part * SECONDS for name, part in busy.items()}
        cpu = {"user": 0.1 * SECONDS, "softirq": contexts["softirq"], "irq": contexts["irq"]}
        cpu["system"] = sum(contexts.values()) - sum(cpu.values())
        at = taken * load.queue_depth * load.jobs / parallel
        latency = {"p50": at, "mean": at * 1.1, "p99": at * 2.5, "p99.9": at * 6}
        samples.append(Sample(number, SECONDS, int(ios * size), ios, latency, cpu, contexts, ios * 2))
    table = "" if variant == RAW else f"0 131072 crypt {load.cipher} - 0 1:0 0 {' '.join(MODES[mode])}".strip()
    return Measurement(load, variant, mode, table, tuple(samples))


def _cells(loads: Iterable[Load], who: Iterable[tuple[str, str]]) -> Iterator[Measurement]:
    who = tuple(who)
    for load in loads:
        for variant, mode in who:
            yield measurement(load, variant, mode)


def _each_way(load: Load, *sizes: int) -> list[Load]:
    return [replace(load, rw=rw, block_sizes=(size, size)) for rw in BOTH_WAYS for size in sizes]


def w1() -> list[Measurement]:
    """The posting's workload, at all three block sizes."""
    modes = (*FOUR[:3], *(("series", mode) for mode in ("no_read", "no_write", "both")))
    return list(_cells(_each_way(POSTING, 4 * KIB, 64 * KIB, MIB), modes))


def w2() -> list[Measurement]:
    """The matrix."""
    loads = []
    for cipher in ("null", "aes-xts-plain64"):
        loads += _each_way(replace(POSTING, workload="W2", cipher=cipher), 4 * KIB, 64 * KIB, MIB)
    return list(_cells(loads, EVERY))


def w3() -> list[Measurement]:
    """Schedulers, and the largest request."""
    load = Load("W3", "null_blk irqmode=0", "aes-xts-plain64", 512, "randrw", (256 * KIB, 256 * KIB), 1, 11)
    loads = [replace(load, scheduler=name) for name in ("none", "mq-deadline", "bfq", "kyber")]
    loads += [replace(load, max_sectors_kb=number) for number in (4, 8, 16, 64, 256, 1024)]
    return list(_cells(loads, FOUR))


def w4() -> list[Measurement]:
    """Access time on devices of a fixed service time."""
    load = Load("W4", "", "aes-xts-plain64", 512, "randread", (4 * KIB, 4 * KIB), 1, 1)
    names = ("null_blk irqmode=2 completion_nsec=10000", "null_blk irqmode=2 completion_nsec=100000", "nvme")
    return list(_cells([replace(load, device=name) for name in names], FOUR))


def w5() -> list[Measurement]:
    """The mixed load, without and with other work for the CPUs."""
    load = Load("W5", "nvme", "aes-xts-plain64", 512, "randrw", (4 * KIB, 128 * KIB), 1, 8)
    return list(_cells([load, replace(load, cpu_load=2)], FOUR))


def curves() -> list[Measurement]:
    """Cost against load: one thing varied at a time."""
    loads = []
    for rw in BOTH_WAYS:
        load = Load("curves", "brd", "aes-xts-plain64", 512, rw, (4 * KIB, 4 * KIB), 1, 1)
        loads += [replace(load, queue_depth=number) for number in (1, 2, 4, 8, 16, 32, 64)]
        loads += [replace(load, jobs=number) for number in (2, 4, 8)]
        for sector in (512, 4096):
            sizes = [512 << shift for shift in range(12) if 512 << shift >= sector]
            loads += [replace(load, sector_size=sector, block_sizes=(number, number)) for number in sizes]
    return list(_cells(dict.fromkeys(loads), FOUR))


ENVIRONMENT = {
    "target": "linux-5.8",
    "queue_hash": "0" * 64,
    "kernel_release": "0.0.0-synthetic",
    "kernel_flavour": "fast",
    "kernel_key": "0" * 64,
    "accel": "tcg",
    "cpu": "No CPU at all (synthetic figures)",
    "modules": {"base": "b" * 40, "series": "5" * 40},
    "cryptsetup": "0.0.0",
    "cryptsetup_queue_hash": "0" * 64,
    "tools": {"fio": "fio-0.0", "qemu": "QEMU emulator version 0.0"},
}


def results(measurements: Iterable[Measurement] | None = None, cut_short: str = "") -> Results:
    """A run with these cells, or with all of the above."""
    if measurements is None:
        measurements = (*w1(), *w2(), *w3(), *w4(), *w5(), *curves())
    return Results(ENVIRONMENT, "synthetic", "2000-01-01T00:00:00+00:00", 1.0, cut_short, tuple(measurements))
