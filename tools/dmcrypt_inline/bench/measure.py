"""make bench: measure all variants in one guest boot."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ..common.paths import TOOLS, build_dir
from ..common.progress import say
from ..guests.environment import environment, write_environment
from ..guests.guest import COUNTED, run_guest
from ..guests.machine import Machine
from ..guests.runs import new_run
from . import inguest
from .inguest import NVME, SERIAL, SIZE, VIRTIO
from .plans import Plan

JOBS = TOOLS / "fio"
STAGE, RESULTS = "bench", "results.json"  # the name of the runs, and a file in the directory of each
BOOT = 900.0  # seconds, at most, for a boot and for the start of Python
FIO = 30.0  # seconds, at most, of a run of fio besides its samples; two are usual
GROUPS = 6  # of jobs in a job file, at most
SLOWER = {COUNTED: 4.0}  # by how much the limit grows where the guest's seconds are longer than the host's
DISKS = {NVME: "nvme", VIRTIO: "virtio-blk-pci"}  # QEMU's names of the emulated disks


def measure(machine: Machine, plan: Plan, name: str) -> Path:
    """Measure the plan on the machine's modules in one boot. Returns the results file; fio's documents lie next to it.

    Raises UserError when a module does not load, a mapping has other options than asked for, or the kernel warns.
    """
    kernel, accel = machine.kernel, machine.accel()
    started, begin = now(), time.monotonic()
    out = new_run(build_dir(kernel.target), STAGE)
    variants = list(machine.modules)
    runs = [part.runs(variants, base_has_flags=machine.tree.target.has_flags) for part in plan.parts]
    order = out / "order.json"
    content = {
        "rounds": plan.rounds,
        "parts": [{**asdict(part), "setting": part.setting, "runs": of} for part, of in zip(plan.parts, runs)],
        "modules": {each: f"variants/{each}.ko" for each in variants},
        "optional": [each for each in variants if each not in ("base", "series")],  # may lack modes
    }
    order.write_text(json.dumps(content))
    limit = plan.rounds * sum(len(of) * (GROUPS * part.seconds + FIO) for part, of in zip(plan.parts, runs))
    say(f"measuring {name} on Linux {kernel.release} ({kernel.flavour}, {accel}): {', '.join(variants)}")
    say(f"console: {out / 'guest' / 'console.log'}")
    with emulated_disks(out) as arguments:
        result = run_guest(
            kernel,
            "bench.sh",
            name="bench",
            out=out / "guest",
            accel=accel,
            timeout=limit * SLOWER.get(accel, 1.0) + BOOT,
            inputs={
                "inguest.py": Path(inguest.__file__),
                "order.json": order,
                "fio": JOBS,
                **machine.modules["series"].inputs,  # the device mapper under all variants
                **{f"variants/{each}.ko": module.path for each, module in machine.modules.items()},
            },
            env={"PYTHON": os.path.realpath(sys.executable)},
            qemu_args=arguments,
            on_line=say,
        )
    result.require_success()
    (result.results / "fio").rename(out / "fio")
    samples = [json.loads(line) for line in (result.results / "samples.jsonl").read_text().splitlines()]
    seconds = round(time.monotonic() - begin)
    found = {
        **{"kind": "fio", "plan": name, "started": started, "seconds": seconds, "rounds": plan.rounds},
        "skipped": json.loads((result.results / "skipped.json").read_text()),
        "samples": samples,
    }
    path = write_environment(out / RESULTS, environment(machine, accel), found)
    say(f"{len(samples)} samples in {seconds} s; results: {path}")
    return path


def now() -> str:
    """The time, ISO 8601 with time zone, to the second."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


@contextmanager
def emulated_disks(out: Path) -> Iterator[list[str]]:
    """QEMU's arguments for the emulated disks, empty files in `out` that are removed afterwards."""
    files = {name: out / f"{name}.disk" for name in DISKS}
    arguments: list[str] = []
    for name, path in files.items():
        with path.open("wb") as disk:
            disk.truncate(SIZE)
        file = str(path).replace(",", ",,")  # QEMU's form of a comma in a value
        # "unsafe": what the guest flushes need not reach the host's disk.
        arguments += ["-drive", f"file={file},if=none,id=bench-{name},format=raw,cache=unsafe"]
        arguments += ["-device", f"{DISKS[name]},serial={SERIAL},drive=bench-{name}"]
    try:
        yield arguments
    finally:
        for path in files.values():
            path.unlink()
