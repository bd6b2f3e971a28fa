"""Results that nobody measured: made up for the tests of the report, the same every time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from dmcrypt_inline.bench.inguest.measurements import MODES, RAW, Load, Measurement, Results, Sample, to_json
from dmcrypt_inline.bench.inguest.workloads import PLANS

ROUNDS = 6
SECONDS = 2.0  # of a sample
NOISE = 0.02  # how far a sample is off, at most, as a fraction

# Microseconds of a request that a mode adds to a device that takes 10.
ADDED = {RAW: 0, "default": 200, "same_cpu": 210, "submit_from_crypt_cpus": 190, "no_read": 60, "no_write": 70}
ADDED["both"] = 20
POSTING = Load("W1", "brd", "null", 512, "read", (4096, 4096), 1, 1)


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
        kcryptd = {RAW: 0.0, "no_read": 0.1, "no_write": 0.1, "both": 0.1}.get(mode, 0.8)
        contexts = {"jobs": 0.6, "softirq": 0.1, "irq": 0.04, "kcryptd": kcryptd, "write_thread": 0.0, "cryptd": 0.0}
        cpu = {"user": 0.2, "softirq": contexts["softirq"], "irq": contexts["irq"]}
        cpu["system"] = sum(contexts.values()) - sum(cpu.values())
        at = taken * load.queue_depth * load.jobs / parallel
        latency = {"p50": at, "mean": at * 1.1, "p99": at * 2.5, "p99.9": at * 6}
        samples.append(Sample(number, SECONDS, int(ios * size), ios, latency, cpu, contexts, ios * 2))
    table = "" if variant == RAW else f"0 131072 crypt {load.cipher} - 0 1:0 0 {' '.join(MODES[mode])}".strip()
    return Measurement(load, variant, mode, table, tuple(samples))


def of_plan(name: str) -> list[Measurement]:
    """All cells of a plan, on a base without the flags and a series."""
    names = {"queue": "series"}
    return [measurement(cell.load, names.get(cell.kind, cell.kind), cell.mode) for cell in PLANS[name].cells]


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
    """A run with these cells, or with those of the plan "full"."""
    found = tuple(of_plan("full") if measurements is None else measurements)
    return Results(ENVIRONMENT, "synthetic", "2000-01-01T00:00:00+00:00", 1.0, cut_short, found)


def write(path: Path, run: Results) -> str:
    """Write a results file; returns its name for a command line."""
    path.write_text(to_json(run))
    return str(path)
