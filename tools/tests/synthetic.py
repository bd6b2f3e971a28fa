"""Results that nobody measured, for the tests of the report: the same every time."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dmcrypt_inline.bench.inguest import MODES, RAW
from dmcrypt_inline.bench.plans import PLANS

LOADS = {
    "w1.fio": ("read-4k", "write-4k", "read-64k", "write-64k", "read-1M", "write-1M"),
    "w3.fio": ("randrw-256k-11-jobs",),
    "w4.fio": ("randread-4k",),
    "w5.fio": ("4-readers-4-writers",),
}
SECONDS = 0.6  # of a sample
BYTES = 4096  # of a request
# Microseconds of a request by mode, on a device that takes 10.
TAKES = {
    RAW: 10.0,
    "default": 200.0,
    "both": 25.0,
    "no_read": 40.0,
    "no_write": 50.0,
    **dict.fromkeys(list(MODES)[1:3], 190.0),
}
ENVIRONMENT = {
    "target": "linux-5.8",
    "queue_hash": "0" * 64,
    "kernel_release": "0.0.0-synthetic",
    "kernel_flavour": "fast",
    "kernel_key": "0" * 64,
    "accel": "tcg",
    "cpu": "No CPU at all",
    "modules": {"base": "b" * 40, "series": "5" * 40},
    "tools": {"fio": "fio-0.0"},
}


def sample(variant: str, mode: str, number: int, micros: float | None = None, **cell: Any) -> dict[str, Any]:
    """One sample; `micros` is the time of a request (default: the mode's, within 2 %)."""
    chance = random.Random(f"{variant}{mode}{number}{cell}")
    took = micros or TAKES[mode] * chance.uniform(0.98, 1.02)
    ios = int(SECONDS * 1e6 / took)
    return {
        **{"workload": "W1", "setting": "brd, null cipher, sectors of 512", "load": "read-4k", "fio": "fio/1.json"},
        **{"variant": variant, "mode": mode, "round": number, "seconds": SECONDS, "bytes": ios * BYTES, "ios": ios},
        **{"latency_us": {"p50": took, "p99": 3 * took, "p99.9": 9 * took}, "cpu_s": {"fio": 0.4, "interrupts": 0.1}},
        **cell,
    }


def of_plan(name: str, *, base_has_flags: bool = False) -> list[dict[str, Any]]:
    plan = PLANS[name]
    return [
        sample(variant, mode, number, workload=part.workload, setting=part.setting, load=load)
        for part in plan.parts
        for number in range(1, plan.rounds + 1)
        for variant, mode in part.runs(("base", "series"), base_has_flags=base_has_flags)
        for load in part.sections or LOADS[part.jobs]
    ]


def results(samples: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        **{"environment": ENVIRONMENT, "kind": "fio", "plan": "synthetic", "started": "2000-01-01T00:00:00+00:00"},
        **{"seconds": 1, "rounds": 5, "skipped": [], "samples": list(samples)},
        **more,
    }


def sector_results(cells: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    made = results((), kind="sectors", baseline="base", measuring=["0001-x.patch"], cells=list(cells), **more)
    del made["samples"], made["skipped"]
    return made


def write(path: Path, content: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path
