"""What a benchmark run leaves, as values: what was measured, how often, what came out. Reports only read these."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...common.errors import UserError

SCHEMA = 2  # raised when the meaning of a field changes
RAW = "raw"  # variant and mode of the device without a mapping

# The modes of a mapping, and the optional table arguments each one has.
MODES: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "same_cpu": ("same_cpu_crypt",),
    "submit_from_crypt_cpus": ("submit_from_crypt_cpus",),
    "no_read": ("no_read_workqueue",),
    "no_write": ("no_write_workqueue",),
    "both": ("no_read_workqueue", "no_write_workqueue"),
}


@dataclass(frozen=True)
class Load:
    """What fio does to which device; figures of one load can be compared with each other.

    `workload` is "W1" to "W5" or "curves". `device` names the device below, with
    its parameters: "brd", "null_blk irqmode=2 completion_nsec=10000", "nvme". `cipher`
    is "null" or a cipher as the table has it, `sector_size` in bytes. `rw` is fio's
    word; `block_sizes` in bytes, smallest and largest. `queue_depth` 1 means one
    synchronous request at a time in each of `jobs`. `scheduler` and `max_sectors_kb`
    are the device's, "" and 0 where they were left alone. `cpu_load`: how many CPUs
    were kept busy beside it. `engine` is fio's; psync has a queue depth of 1.
    """

    workload: str
    device: str
    cipher: str
    sector_size: int
    rw: str
    block_sizes: tuple[int, int]
    queue_depth: int
    jobs: int
    scheduler: str = ""
    max_sectors_kb: int = 0
    cpu_load: int = 0
    engine: str = "psync"

    @staticmethod
    def of(found: Mapping[str, Any]) -> Load:
        """The load that JSON has as a mapping."""
        return Load(**{**found, "block_sizes": tuple(found["block_sizes"])})


@dataclass(frozen=True)
class Sample:
    """One run of fio over a cell.

    `round` counts from 1; samples of one round were taken close to each other. `seconds`
    is the time measured, without the warm-up; `bytes` and `ios` were moved in it, both
    directions together. `latency_us` maps "mean", "p50", "p99", "p99.9" and further
    percentiles to microseconds from submission to completion. `cpu_seconds` maps "user",
    "system", "softirq" and "irq" to CPU time; `by_context` divides the same time another
    way: "jobs" (fio's own), "kcryptd", "write_thread", "cryptd", "other_threads", "softirq"
    and "irq". Neither has the measuring in it, nor a load beside it. `context_switches`
    are the whole machine's.
    """

    round: int
    seconds: float
    bytes: int
    ios: int
    latency_us: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    by_context: Mapping[str, float]
    context_switches: int

    @property
    def throughput(self) -> float:
        """MiB/s."""
        return self.bytes / self.seconds / (1 << 20)


@dataclass(frozen=True)
class Measurement:
    """A cell: a load on one variant of dm-crypt in one mode, the table it had (key left out), its samples in order.

    `variant` is "raw" for the device itself, as is `mode`; else "base", "series" or
    the user's name, and a key of MODES.
    """

    load: Load
    variant: str
    mode: str
    table: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Results:
    """One benchmark run.

    `environment` is environment.Environment as a mapping; `plan` the name of what was asked
    for; `started` ISO 8601 with time zone; `seconds` of the whole run; `cut_short`
    says why cells are missing or have few samples, "" when they are not.
    """

    environment: Mapping[str, Any]
    plan: str
    started: str
    seconds: float
    cut_short: str
    measurements: tuple[Measurement, ...]


def to_json(results: Results) -> str:
    """The text of a results file."""
    return json.dumps({"schema": SCHEMA, **asdict(results)}, indent=1) + "\n"


def read(path: Path) -> Results:
    """The results in a file. Raises UserError that names file and fault when it is no results file of this schema."""
    try:
        found = json.loads(path.read_text())
        if found.pop("schema") != SCHEMA:
            raise UserError(f"{path} has another schema than {SCHEMA}: measure again, or use the tools that wrote it")
        measurements = tuple(
            Measurement(
                **{
                    **each,
                    "load": Load.of(each["load"]),
                    "samples": tuple(Sample(**sample) for sample in each["samples"]),
                }
            )
            for each in found.pop("measurements")
        )
        return Results(**found, measurements=measurements)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is no results file of a benchmark: {type(error).__name__}: {error}") from error
