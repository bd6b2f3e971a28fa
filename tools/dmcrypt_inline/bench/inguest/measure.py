"""The measuring program: python3 -m dmcrypt_inline.bench.inguest.measure ORDER RESULTS, as root, in a guest or not.

It needs nothing but Python's standard library, fio, dmsetup and, for LUKS, cryptsetup.
Leaves samples.jsonl, one line a sample with its cell and the name of fio's document, written as it
comes; raw/, what fio wrote; commands.log; and end.json, which says what is missing and why.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from ...common.errors import UserError
from ...common.progress import clock
from ...common.run import Completed, run
from . import devices, labels, mappings, orders
from .devices import Device, Unsupported
from .mappings import Crypt
from .measurements import RAW, Load
from .orders import Order, Part, Variant
from .sampling import Sampler
from .stats import settled, spread
from .workloads import NULL

TRANSIENT = "~ "  # starts a line that the next one replaces on a terminal
PROGRAM_TIMEOUT = 120.0  # seconds, against a program that hangs


@dataclass(frozen=True)
class Place:
    """Where a load runs: variant, mode, the node to read and write, its table ("" for a device itself)."""

    variant: str
    mode: str
    node: str
    table: str


@contextmanager
def busy(cpus: int) -> Iterator[None]:
    """Keep `cpus` CPUs busy; at a nice level, by which accounting.py tells this time from the I/O's."""
    with ExitStack() as stack:
        for _ in range(cpus):
            spinning = subprocess.Popen(["nice", "-n", "1", "sh", "-c", "while :; do :; done"])
            stack.callback(spinning.wait)
            stack.callback(spinning.kill)
        yield


@dataclass
class Session:
    """The state of one measurement: what is loaded, what was found, how much time is left."""

    order: Order
    results: Path
    sampler: Sampler
    deadline: float
    loaded: Variant | None = None
    runs: int = 0  # of fio
    throughput: dict[tuple[Load, str, str], list[float]] = field(default_factory=dict)
    known: dict[tuple[str, str], bool] = field(default_factory=dict)  # whether a variant knows a mode
    missing: list[str] = field(default_factory=list)  # of the plan, and why

    def run(self, argv: Sequence[str], stdin: bytes | None = None) -> Completed:
        """Run a program as `run` does, logged beside the results."""
        return run(argv, log=self.results / "commands.log", timeout=PROGRAM_TIMEOUT, stdin=stdin)

    def measure(self) -> str:
        """All parts of the plan; returns what is missing and why, "" for nothing."""
        todo = orders.parts(self.order.plan.cells)
        left = sum(part.count(self.order.variants) for part in todo)
        for number, part in enumerate(todo):
            now = time.monotonic()
            if now > self.deadline:
                rest = sum(len(part.loads) for part in todo[number:])
                self.missing.append(f"the time limit of {self.order.plan.seconds:.0f} s left {rest} loads unmeasured")
                break
            count = part.count(self.order.variants)
            try:
                self._part(part, now + (self.deadline - now) * count / max(left, 1))
            except Unsupported as error:
                self.missing.append(f"without {'; '.join(map(labels.describe, part.loads))}: {error}")
                print(self.missing[-1], flush=True)
            left -= count
        else:
            if few := sum(len(samples) < self.order.plan.rounds for samples in self.throughput.values()):
                self.missing.append(f"the time limit left {few} cells with fewer than {self.order.plan.rounds} samples")
        why = "; ".join(self.missing)
        if not self.throughput:
            raise UserError(f"nothing could be measured: {why}")
        return why

    def _part(self, part: Part, until: float) -> None:
        """Rounds over the part: those of the plan, more until every load has settled or another would end too late.

        `until` is the part's share of the time, which only rounds beyond the plan's have to keep.
        """
        first = part.loads[0]
        with ExitStack() as stack:
            device = stack.enter_context(devices.opened(first.device, self.run))
            stack.enter_context(devices.set_up(device, first.scheduler, first.max_sectors_kb))
            crypt = self._crypt(first, device)
            number, loads = 0, part.loads
            while loads:
                number += 1
                begin = time.monotonic()
                self._round(part, loads, device, crypt, number)
                now = time.monotonic()
                unsettled = tuple(load for load in loads if not self._settled(load))
                enough = number >= self.order.plan.rounds
                ends = now + (now - begin) * len(unsettled) / len(loads)
                over = not self.order.plan.more or ends > until if enough else ends > self.deadline
                for load in loads:
                    if over or load not in unsettled:
                        self._say_load(load)
                loads = () if over else unsettled

    def _crypt(self, load: Load, device: Device) -> Crypt:
        if load.cipher == NULL:
            return mappings.null(device, read_only=not self.order.writes)
        if not self.order.writes:
            return Crypt(load.cipher, mappings.FAKE_KEY, 0)
        self._load(self.order.variants[0])
        return mappings.luks(device, self.order.cryptsetup, partial(self.run, stdin=mappings.PASSPHRASE))

    def _round(self, part: Part, loads: Sequence[Load], device: Device, crypt: Crypt, number: int) -> None:
        """Every variant and mode once; who comes first alternates. The modes of a variant lie side by side.

        The device itself is measured by the same fio as the first variant: one more would have to start.
        """
        forth = number % 2 == 1
        first = self.order.variants[0]
        raw = [(load, Place(RAW, RAW, device.node, "")) for load in part.raw() if load in loads]
        for variant in self.order.variants if forth else reversed(self.order.variants):
            modes = {mode: of for mode, of in part.of(variant).items() if self._knows(variant, mode, device)}
            runs: list[tuple[Load, Place]] = []
            with ExitStack() as stack:
                for mode in modes if forth else reversed(modes):
                    wanted = [load for load in loads if load in modes[mode]]
                    if wanted:
                        node, table = stack.enter_context(
                            mappings.mapped(
                                crypt, device, mode, loads[0].sector_size, self.run, read_only=not self.order.writes
                            )
                        )
                        runs += [(load, Place(variant.name, mode, node, table)) for load in wanted]
                if variant == first:
                    runs = raw + runs if forth else runs + raw
                if runs:
                    self._samples(runs, number)

    def _knows(self, variant: Variant, mode: str, device: Device) -> bool:
        self._load(variant)
        cell = (variant.name, mode)
        if cell not in self.known:
            read_only = not self.order.writes
            self.known[cell] = variant.strict or mappings.knows(mode, device, self.run, read_only=read_only)
            if not self.known[cell]:
                print(f"{variant.name} does not know the mode {mode}", flush=True)
        return self.known[cell]

    def _load(self, variant: Variant) -> None:
        if variant == self.loaded or not variant.module:
            return
        self.unload()
        self.run(["insmod", variant.module])
        self.loaded = variant

    def unload(self) -> None:
        """Unload the variant that is loaded, if it was loaded here."""
        if self.loaded is not None:
            self.run(["rmmod", "dm_crypt"])
            self.loaded = None

    def _samples(self, runs: Sequence[tuple[Load, Place]], number: int) -> None:
        """A sample of each of these, written down and told."""
        raw = f"{self.runs:05d}.json"
        self.runs += 1
        left = max(0.0, self.deadline - time.monotonic())
        first, _ = runs[0]
        variants = ", ".join(dict.fromkeys(on.variant for _, on in runs))
        print(
            f"{TRANSIENT}at most {clock(left)} left: {first.workload}, {first.device}, "
            f"round {number}, {variants}: {len(runs)} samples",
            flush=True,
        )
        with busy(first.cpu_load):
            samples = self.sampler.samples([(load, on.node) for load, on in runs], self.order.plan, number, raw)
        with (self.results / "samples.jsonl").open("a") as sink:
            for (load, on), sample in zip(runs, samples):
                cell = {"load": asdict(load), "variant": on.variant, "mode": on.mode, "table": on.table}
                sink.write(json.dumps({**cell, "sample": asdict(sample), "raw": raw}) + "\n")
                self.throughput.setdefault((load, on.variant, on.mode), []).append(sample.throughput)

    def _of(self, load: Load) -> dict[str, list[float]]:
        return {labels.cell_name(*cell): found for (each, *cell), found in self.throughput.items() if each == load}

    def _settled(self, load: Load) -> bool:
        plan = self.order.plan
        return all(settled(samples, plan.rounds, plan.within) for samples in self._of(load).values())

    def _say_load(self, load: Load) -> None:
        """What came out for a load, on one line."""
        found = {name: spread(samples) for name, samples in self._of(load).items()}
        cells = ", ".join(f"{name} {each.median:.1f}" for name, each in found.items())
        rounds = max(len(samples) for samples in self._of(load).values())
        worst = max(each.iqr for each in found.values())
        print(
            f"{load.workload}, {labels.describe(load)} (MiB/s, {rounds} rounds, spread up to {worst:.0%}): {cells}",
            flush=True,
        )


def measure(order: Order, results: Path) -> str:
    """Carry out the order; returns what is missing. Raises UserError when something cannot be measured as claimed."""
    results.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + order.plan.seconds
    with Sampler(results, read_only=not order.writes) as sampler:
        session = Session(order, results, sampler, deadline)
        try:
            missing = session.measure()
        finally:
            session.unload()
    return missing


def interruptible() -> None:
    """Have the first SIGINT or SIGTERM raise KeyboardInterrupt; those that follow must not disturb the clean-up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # not SIG_IGN: the programs run from here would inherit it
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when the order was carried out, 1 with a message when not."""
    order, results = Path(arguments[0]), Path(arguments[1])
    interruptible()
    try:
        missing = measure(orders.read(order), results)
    except (UserError, KeyboardInterrupt) as error:
        print(f"FAILED: {str(error) or 'interrupted'}", flush=True)
        return 1
    (results / "end.json").write_text(json.dumps({"cut_short": missing}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
