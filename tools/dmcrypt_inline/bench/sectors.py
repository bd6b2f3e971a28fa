"""make bench ACCEL=native: the price of a sector, and of the worker threads, with a real cipher and no emulator.

The kernels are User-Mode Linux with the target's tree and the target's measured/*.patch. One boot measures all
variants, each loaded under a target name of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from ..common.errors import UserError
from ..common.paths import TOOLS, build_dir
from ..common.progress import say
from ..guests.environment import CPUINFO, environment, write_environment
from ..guests.guest import run_guest
from ..guests.machine import UNACCELERATED, Machine
from ..guests.runs import new_run
from ..kernels.build import Kernel, build_variant
from ..trees.targets import DISTRIBUTION, MEASURED, MEASURED_PATCHES
from .measure import RESULTS, STAGE, now

LOAD = TOOLS / "bench-native" / "sectors.c"
MEMORY = "256M"  # memory and modules must lie below 2 GiB: the kernels are linked like that
FORMS = ("plain", "safe", "retpolines")  # of returns and indirect calls; a patch of the target has them
HIDDEN = {  # kernel arguments that hide instructions of the processor, by the instructions that remain
    "vaes_avx512": (),
    "vaes_avx2": ("without_avx512",),
    "aesni_avx": ("without_avx512", "without_vaes"),
    "aesni": ("without_avx512", "without_vaes", "only_aesni"),
}
BASE_ON_7_4 = "base-7.4"  # the base with the crypto API's driver that calls the AES library, as x86 has from 7.4 on
LIBRARY = "capi:xts-aes-lib-plain64"
NAME = '\t.name   = "crypt",\n'  # as the driver has it


@dataclass(frozen=True)
class SectorsPlan:
    """Forms of the kernel and kinds of mappings.

    `forms` are FORMS, perhaps with further kernel arguments. `flavours` are kernels: MEASURED, DISTRIBUTION. `older`:
    measure older instructions, too. `kinds` are words of sectors.sh. `load` are parameters of sectors.c: threads that
    submit, requests in flight. `queues`: measure the base and the queues below, too. With `boots` the base is measured,
    and that many boots have the device mapper of the base, as many that of the queue, in alternation.
    """

    forms: tuple[str, ...]
    older: bool
    kinds: tuple[str, ...]
    rounds: int
    cpus: int = 1
    load: str = ""
    queues: bool = True
    boots: int = 0
    flavours: tuple[str, ...] = (MEASURED,)


NATIVE_PLANS = {
    "quick": SectorsPlan(FORMS[:2], False, ("aes:512:inline",), 61),
    "full": SectorsPlan(
        FORMS,
        True,
        ("aes:512:inline", "aes:4096:inline", "null:512:inline", "aes:512:default"),
        61,
    ),
    "distribution": SectorsPlan(
        FORMS[:2], False, ("aes:512:inline",), 61, load="softirq=1", flavours=(MEASURED, DISTRIBUTION)
    ),
    "ciphers": SectorsPlan(FORMS[:2], False, ("essiv:512:inline", "adiantum:512:inline"), 61),
    "handover": SectorsPlan(
        ("plain", "plain nohlt"),  # an idle CPU sleeps, or it polls
        False,
        ("aes:512:default+read+write+inline", "serpent:512:default+read+write+inline"),
        15,
        cpus=2,
        load="threads=1,1,1,1,2 depth=1,2,4,8,1 span=20",
        queues=False,
    ),
    "contention": SectorsPlan(
        *(("plain",), False, ("aes:512:inline",), 21),
        cpus=2,
        load="threads=1,2,1,2,1,2 depth=1,1,8,8,32,32 span=5",
    ),
    "core": SectorsPlan(FORMS[:2], False, ("aes:512:inline",), 21, queues=False, boots=12),
}
TIMES = ("ns_per_512", "elapsed_per_512")
NEW_CORE = "+dm"  # follows a variant's name where the device mapper is the queue's


def instructions(cpuinfo: str, older: bool) -> list[str]:
    """The sets of instructions (keys of HIDDEN) of this processor, the best first; only the best unless `older`."""
    flags = set(next(line for line in cpuinfo.splitlines() if line.startswith("flags")).split())
    found = [
        name
        for name, needed in (("vaes_avx512", {"vaes", "avx512bw", "avx512vl"}), ("vaes_avx2", {"vaes", "avx2"}))
        if needed <= flags
    ]
    if not {"aes", "avx"} <= flags:
        raise UserError("this processor has no AES instructions, or no AVX: there is nothing to measure")
    return [*found, "aesni_avx", "aesni"] if older else [*found, "aesni_avx"][:1]


def renamed(source: str, target: str) -> str:
    """The driver under another target's name."""
    if source.count(NAME) != 1:
        raise UserError("the driver does not define its target's name the way dm-crypt.c does")
    return source.replace(NAME, NAME.replace("crypt", target))


def measure_sectors(machines: Sequence[Machine], drivers: Mapping[str, str], plan: SectorsPlan, name: str) -> Path:
    """Measure the drivers' sources, by variant, on each machine's kernel. Returns the results file.

    Raises UserError when a module does not build or load, when data are wrong and when the kernel warns.
    """
    target = machines[0].tree.target
    started, begin = now(), time.monotonic()
    out = new_run(build_dir(target.name), STAGE)
    sources = {f"crypt_{number}": renamed(text, f"crypt{number}") for number, text in enumerate(drivers.values())}
    listed = out / "drivers"
    rows = [f"crypt_{number} crypt{number} {driver}\n" for number, driver in enumerate(drivers)]
    if "base" in drivers:
        rows.append(f"crypt_0 crypt0 {BASE_ON_7_4} {LIBRARY}\n")
    listed.write_text("".join(rows))
    further = {**sources, "sectors": LOAD.read_text()}
    sets = instructions(CPUINFO.read_text(), plan.older)
    cells: list[dict[str, Any]] = []
    for machine, form, chosen in product(machines, plan.forms, sets):
        kernel = machine.kernel
        words = (*f"measure={form}".split(), *HIDDEN[chosen], f"ncpus={plan.cpus}")
        shown = form if kernel.flavour == MEASURED else f"{form} {kernel.flavour}"
        say(f"measuring {', '.join(drivers)} on Linux {kernel.release} ({shown}, {chosen})")
        cores = {"": machine.tree.base, NEW_CORE: machine.tree.series} if plan.boots else {"": machine.tree.series}
        boots: list[list[dict[str, Any]]] = []
        for boot, (core, commit) in product(range(plan.boots or 1), cores.items()):
            modules = build_variant(kernel, machine.tree, commit, f"measured{core}", further=further)
            inputs = {**modules.inputs, "measured": modules.directory, "drivers": listed}
            where = out / "-".join((*shown.split(), chosen, *([f"{boot}{core}"] if plan.boots else [])))
            found = _boot(kernel, inputs, words, plan, where)
            boots.append(
                [
                    {"form": shown, "instructions": chosen, **cell, "variant": f"{cell['variant']}{core}"}
                    for cell in found
                ]
            )
        cells += by_boot(boots) if plan.boots else boots[0]
    content = {
        "kind": "sectors",
        "plan": name,
        "started": started,
        "seconds": round(time.monotonic() - begin),
        "rounds": plan.rounds,
        "baseline": next(iter(drivers)),
        "measuring": [path.name for path in target.data(MEASURED_PATCHES)],
        "cells": cells,
    }
    return write_environment(out / RESULTS, environment(machines[0], UNACCELERATED), content)


def _boot(
    kernel: Kernel, inputs: Mapping[str, Path], words: Sequence[str], plan: SectorsPlan, out: Path
) -> Iterator[dict[str, object]]:
    result = run_guest(
        kernel,
        "sectors.sh",
        name="sectors",
        out=out,
        accel=UNACCELERATED,
        timeout=3600,
        inputs=inputs,
        env={
            "KINDS": " ".join(plan.kinds),
            "ROUNDS": str(plan.rounds),
            "LOAD": plan.load,
            "VERITY": "1" * bool(plan.boots),
        },
        memory=MEMORY,
        kernel_args=words,
        on_line=say,
    )
    result.require_success()
    for kind in plan.kinds:
        cipher, sector, flags = kind.split(":")
        for cell in gathered((result.results / kind).read_text()):
            variant, _, own = str(cell["variant"]).partition(":")
            yield {"cipher": cipher, "sector": int(sector), "flags": own or flags, **cell, "variant": variant}


def by_boot(boots: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The cells of several boots; their samples are the medians of the boots."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cell in (cell for cells in boots for cell in cells):
        same = {name: value for name, value in cell.items() if name not in TIMES}
        into = found.setdefault(tuple(same.values()), {**same, **{name: [] for name in TIMES}})
        for name in TIMES:
            into[name].append(median(cell[name]))
    return list(found.values())


def gathered(lines: str) -> list[dict[str, object]]:
    """The cells with their samples, one a round: nanoseconds per 512 bytes, of CPU time and of the clock."""
    found: dict[tuple[str, ...], list[list[float]]] = {}
    for line in lines.splitlines():
        _, *cell, moved, elapsed, spent = line.split()
        samples = found.setdefault(tuple(cell), [[], []])
        for kept, time_taken in zip(samples, (spent, elapsed), strict=True):
            kept.append(round(int(time_taken) / int(moved) * 512, 2))
    return [
        {
            **{"variant": variant, "direction": direction, "size": int(size)},
            **{"threads": int(threads), "depth": int(depth), "ns_per_512": spent, "elapsed_per_512": elapsed},
        }
        for (variant, direction, size, threads, depth), (spent, elapsed) in found.items()
    ]
