"""make bench: all variants measured in one guest boot."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import TOOLS, build_dir, log_dir
from ..common.progress import clock, say
from ..guests.environment import environment
from ..guests.guest import COUNTED, run_guest
from ..guests.machine import Machine
from ..guests.runs import new_run
from ..trees.series import Tree, driver_commits
from ..trees.targets import Target
from .gather import About, finish, kept_on_failure, now
from .inguest import orders
from .inguest.devices import SERIAL
from .inguest.measure import TRANSIENT
from .inguest.measurements import RAW
from .inguest.orders import ALL_KINDS, BASE_KINDS, QUEUE_KINDS, Order, Variant
from .inguest.workloads import NVME, VIRTIO, Plan

PACKAGE = TOOLS / "dmcrypt_inline"
# All of it that is copied into a guest: what pyproject.toml lets the measuring program import, and no more.
IN_GUEST = (
    *("__init__.py", "common/__init__.py", "bench/__init__.py", "bench/inguest"),
    *(f"common/{name}.py" for name in ("cleanup", "errors", "progress", "run")),
)
BOOT = 900.0  # seconds for a boot, the start of Python, and the end of a round that the time limit met
# How many times the plan's time limit, which the guest's clock keeps, a guest may take: against a hang. A machine that
# does more than this is slower than a counting clock: a full run had not ended after 1.9 times its limit.
SLOWER = {COUNTED: 5.0}
EACH, STEP = "each", r"patch-\d\d"  # the word for, and the names of, the queue's patches one by one
DISK_SIZE = 64 << 20  # bytes of each emulated disk
# As -device takes them. "unsafe": what the guest flushes need not reach the host's disk. devices.py looks at SERIAL.
DISKS = {NVME: f"nvme,serial={SERIAL}", VIRTIO: f"virtio-blk-pci,serial={SERIAL}"}


class Terminal:
    """Shows what the measuring program prints: on a terminal, its transient lines replace each other."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()

    def line(self, text: str) -> None:
        """Show one line."""
        if not text.startswith(TRANSIENT):
            say(f"\r\033[K{text}" if self.live else text)
        elif self.live:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text[len(TRANSIENT) :][:width]}", end="", flush=True)


def run(machine: Machine, plan: Plan, further: Mapping[str, Path]) -> Path:
    """Measure the plan on the modules of the machine and on `further`, module files by name, in one boot.

    Writes build/<target>/bench/<plan>-<time>.json, what fio wrote beside it in <plan>-<time>.raw/.
    Raises UserError when a module does not load, a mapping is not what was asked for, or the kernel complains.
    """
    kernel = machine.kernel
    out = build_dir(kernel.target) / "bench"
    chosen = machine.accel()
    files = {**{name: module.path for name, module in machine.modules.items()}, **further}
    variants = _variants(files, machine.tree.target)
    plan = stretched(plan, variants)
    order = Order(plan, variants, "cryptsetup")
    say(f"measuring {plan.name} on Linux {kernel.release} ({kernel.flavour}, {chosen}): {', '.join(files)}")
    guest_out = new_run(build_dir(kernel.target), "bench-guest")
    say(f"at most {clock(plan.seconds)}; console: {guest_out / 'console.log'}")
    started, begin = now(), time.monotonic()
    with written(out, order) as place, _disks(out) as arguments:
        result = run_guest(
            kernel,
            "bench.sh",
            name="bench",
            out=guest_out,
            accel=chosen,
            timeout=plan.seconds * SLOWER.get(chosen, 1.5) + BOOT,
            inputs={
                "order.json": place,
                **{f"tools/dmcrypt_inline/{name}": PACKAGE / name for name in IN_GUEST},
                **{f"variants/{name}.ko": path for name, path in files.items()},
            },
            env={"PYTHON": os.path.realpath(sys.executable)},
            qemu_args=arguments,
            on_line=Terminal().line,
        )
    where = asdict(environment(machine, chosen))
    digests = {name: f"sha256:{sha256(path.read_bytes()).hexdigest()}" for name, path in further.items()}
    where["modules"] = {**where["modules"], **digests}  # of those whose source is not known
    about = About(where, plan, started, begin)
    with kept_on_failure(out, result.results, about):
        result.require_success()
    return finish(out, result.results, about)


def named_variants(given: Sequence[str]) -> tuple[dict[str, Path], bool]:
    """Modules (.ko) and sources (.c) by variant's name from words NAME=PATH, and whether EACH was among them.

    Raises UserError for any other word, a name taken twice and a file that is not there.
    """
    found: dict[str, Path] = {}
    for word in given:
        name, equals, path = word.partition("=")
        if word == EACH:
            continue
        fits = equals and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) and Path(path).suffix in (".c", ".ko")
        if not fits:
            raise UserError(f"VARIANT={word}: neither NAME=path/to/dm-crypt.c (or .ko) nor {EACH}")
        if name in found or name in ("base", "series", RAW) or re.fullmatch(STEP, name):
            raise UserError(f"VARIANT={word}: the name {name} is taken")
        if not Path(path).is_file():
            raise UserError(f"VARIANT={word}: there is no file {path}")
        found[name] = Path(path)
    return found, EACH in given


def steps(tree: Tree) -> dict[str, str]:
    """The commits that change dm-crypt by variant's name, "patch-02" for the second patch.

    The last of them is left out: it is "series".
    """
    log = log_dir(tree.target.name) / "variants.log"
    return {f"patch-{number:02d}": commit for number, commit in list(driver_commits(tree, log).items())[:-1]}


def _variants(files: Mapping[str, Path], target: Target) -> tuple[Variant, ...]:
    """The base knows what it knows, our series all, others are asked."""
    return tuple(
        Variant(
            name,
            (ALL_KINDS if target.has_flags else BASE_KINDS) if name == "base" else QUEUE_KINDS,
            f"variants/{name}.ko",
            strict=name in ("base", "series"),
        )
        for name in files
    )


def stretched(plan: Plan, variants: Sequence[Variant]) -> Plan:
    """The plan, whose time limit is made for a base without the flags and a series, with what other variants take."""
    todo = orders.parts(plan.cells)
    made_for = [
        Variant(name, kinds, "", strict=True) for name, kinds in (("base", BASE_KINDS), ("series", QUEUE_KINDS))
    ]
    times = sum(part.count(variants) for part in todo) / sum(part.count(made_for) for part in todo)
    return replace(plan, seconds=plan.seconds * times)


@contextmanager
def written(out: Path, order: Order) -> Iterator[Path]:
    """The order as a file, for as long as it is needed."""
    out.mkdir(parents=True, exist_ok=True)
    place = out / f"order-{os.getpid()}.json"
    place.write_text(orders.to_json(order))
    try:
        yield place
    finally:
        place.unlink()


@contextmanager
def _disks(out: Path) -> Iterator[list[str]]:
    """QEMU's arguments for the emulated disks: files in a directory of this run."""
    place = out / f"disks-{os.getpid()}"
    place.mkdir(mode=0o700)
    arguments: list[str] = []
    try:
        for name, device in DISKS.items():
            path = place / name
            with path.open("wb") as disk:
                disk.truncate(DISK_SIZE)
            drive = f"bench-{name}"
            file = str(path).replace(",", ",,")  # as QEMU wants a comma in a value
            arguments += ["-drive", f"file={file},if=none,id={drive},format=raw,cache=unsafe"]
            arguments += ["-device", f"{device},drive={drive}"]
        yield arguments
    finally:
        shutil.rmtree(place)
