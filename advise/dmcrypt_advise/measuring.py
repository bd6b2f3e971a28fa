"""Measure reads through the default path and with each flag; the open mapping stays in use, its disk is only read.

Further mappings of the same device, read-only and with a random key, have the same cipher and sectors: they decrypt to
noise at the same cost. All variants alternate, and each round compares its own values. Writes are not measured.
"""

import itertools
import json
import mmap
import multiprocessing
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.pool import Pool
from pathlib import Path

from . import judge, looking
from .errors import AdviseError
from .looking import Facts, MappingFacts
from .mappings import FLAGS, READ, WRITE, Segment
from .system import System

ROUNDS = 9
LEFT_OUT = 1  # rounds at each end; the others enclose the true median with a probability of 96 % (binomial, 9 rounds)
LEAST = 0.02  # smaller differences count as none: 12 loads are compared, and 4 % of the intervals miss the median
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GIB = 1 << 30
RAW, DEFAULT, BOTH = "raw", "default", "both"
VARIANTS: dict[str, tuple[str, ...]] = {DEFAULT: (), READ: (READ,), WRITE: (WRITE,), BOTH: FLAGS}
COLUMNS = {READ: "no_read", WRITE: "no_write", BOTH: "both flags"}
CPUS = "/sys/devices/system/cpu"
UNITS = {"rate": "MiB/s", "cpu": "CPU seconds per GiB"}  # of a Sample
CLEAR = 2  # loads with a difference that decide: a single one of 12 may be noise
WIDE = 0.3  # intervals that show other work on the machine, as a share of the ratio
INTRODUCTION = """\
Reads in MiB/s: the device below the mapping, and dm-crypt's default path. The
other columns are the throughput with the flags, divided by that of the default
path, and the interval that holds the true median (96 %). A load is the size of
a request, the order, and the requests in flight."""


@dataclass(frozen=True)
class Load:
    """Reads of `block` bytes, one after the other or at random places, by `in_flight` processes at once."""

    order: str
    block: int
    in_flight: int

    @property
    def name(self) -> str:
        """The load for the screen."""
        size = f"{self.block >> 10}k" if self.block < 1 << 20 else f"{self.block >> 20}M"
        return f"{size} {self.order}, {self.in_flight}"


LOADS = tuple(
    Load(order, block, in_flight)
    for order in ("random", "sequential")
    for block in (4 << 10, 64 << 10, 1 << 20)
    for in_flight in (1, 8)
)


@dataclass(frozen=True)
class Target:
    """A range of a block device, in bytes."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True)
class Sample:
    """One measurement, in UNITS; `cpu` is the time of the complete machine."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Comparison:
    """The throughput of a variant divided by that of the default path: median, and the interval that holds it."""

    ratio: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1: faster, -1: slower, 0: the difference is not outside of the noise."""
        if self.low > 1 and self.ratio >= 1 + LEAST:
            return 1
        return -1 if self.high < 1 and self.ratio <= 1 - LEAST else 0


Rounds = Mapping[str, Sequence[Sample]]  # by variant; one sample for each round


def measure(system: System, name: str, seconds: float, say: Callable[[str], None]) -> dict[str, object]:
    """Measure for about `seconds`, print a table and a verdict, and return both with the machine, for JSON.

    Removes everything that it created. Raises AdviseError if measuring is impossible (no such mapping, no table,
    integrity tags) or unsafe on this kernel.
    """
    facts = looking.look(system)
    found, variants = _to_measure(facts, name)
    unsafe = [flag for flag in FLAGS if flag not in variants]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        with ExitStack() as stack:
            targets = _targets(stack, system, found, variants)
            say("\n".join([INTRODUCTION, *(f"{flag} is not measured: it is unsafe on this kernel" for flag in unsafe)]))
            say("\n" + head(variants))
            length, results = seconds / (ROUNDS * len(LOADS) * len(targets)), {}
            readers = stack.enter_context(_readers())
            for load in LOADS:
                with _interruptible():
                    results[load] = _rounds(readers, targets, load, length)
                say(row(load, results[load]))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    say("\n" + textwrap.fill(sentence := verdict(results), 80))
    return document(facts, found, results, sentence)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Allow interrupts. At other times signals wait, because an interrupted dmsetup can leave a mapping behind."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)


def _to_measure(facts: Facts, name: str) -> tuple[MappingFacts, list[str]]:
    """The mapping, and the variants that are safe to try."""
    found, judged = judge.find_mapping(facts, name)
    if judge.cannot_judge(found, facts):
        raise AdviseError("\n    ".join([f"{name}: cannot be measured", *judged.reasons]))
    if found.mapping.segments[0].integrity:
        raise AdviseError(f"{name}: cannot be measured: a second mapping would change the integrity tags")
    unsafe = judge.unsafe_flags(found, facts)
    if set(FLAGS) <= unsafe.keys():
        why = dict.fromkeys(unsafe.values())
        raise AdviseError("\n    ".join([f"{name}: both flags are unsafe on this kernel", *why]))
    return found, [variant for variant, flags in VARIANTS.items() if not unsafe.keys() & set(flags)]


def _targets(stack: ExitStack, system: System, found: MappingFacts, variants: Sequence[str]) -> dict[str, Target]:
    """The device below the mapping, and a new mapping for each variant."""
    segment = found.mapping.segments[0]
    size = segment.length * 512
    if size < max(load.block for load in LOADS):
        raise AdviseError(f"{found.mapping.name}: too small to be measured")
    raw = Target(f"/dev/{system.path(f'/sys/dev/block/{segment.device}').resolve().name}", segment.offset * 512, size)
    key = os.urandom(segment.key_bits // 8).hex() or "-"
    targets = {RAW: raw}
    for variant in variants:
        path = stack.enter_context(_mapping(_table(segment, key, VARIANTS[variant])))
        targets[variant] = Target(path, 0, size)
    return targets


def _table(segment: Segment, key: str, flags: Sequence[str]) -> str:
    words = [*([f"sector_size:{segment.sector_size}"] if segment.sector_size > 512 else []), *flags]
    start = f"0 {segment.length} crypt {segment.cipher} {key} 0 {segment.device} {segment.offset}"
    return f"{start} {len(words)} {' '.join(words)}".strip()


@contextmanager
def _mapping(table: str) -> Iterator[str]:
    """Create a read-only mapping. The table goes through a pipe, because every user may read command lines."""
    name = f"dmcrypt-advise-{os.getpid()}-{random.randrange(1 << 30)}"
    _run(["dmsetup", "create", "--readonly", name], table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        _run(["dmsetup", "remove", "--retry", name])


def _run(argv: Sequence[str], given: str = "") -> None:
    try:
        subprocess.run(argv, input=given, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise AdviseError(f"{' '.join(argv)}: {error.stderr.strip()}") from error


def _readers() -> Pool:
    """Processes for the requests in flight. Threads cannot take their place: they wait for each other in Python.

    Interrupts reach the main process alone, which then ends the others.
    """

    def until_terminated() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    return multiprocessing.get_context("fork").Pool(max(load.in_flight for load in LOADS), until_terminated)


def _rounds(readers: Pool, targets: Mapping[str, Target], load: Load, seconds: float) -> Rounds:
    """Measure each target once a round; every second round runs backwards."""
    results: dict[str, list[Sample]] = {variant: [] for variant in targets}
    for number in range(ROUNDS):
        for variant in list(targets)[:: 1 if number % 2 == 0 else -1]:
            results[variant].append(_sample(readers, targets[variant], load, seconds))
    return results


def _sample(readers: Pool, target: Target, load: Load, seconds: float) -> Sample:
    """Run a load for `seconds`; each process does one request after the other, at least one."""
    used, end = _cpu_seconds(), time.monotonic() + seconds
    begin = random.randrange(target.size // load.block)
    work = [(target, load, begin + number, end) for number in range(load.in_flight)]
    try:
        done = readers.starmap(_read_until, work, chunksize=1)
    except OSError as error:
        raise AdviseError(f"{target.path}: {load.name}: {error.strerror}") from error
    cpu = (_cpu_seconds() - used) * GIB / (sum(count for count, _ in done) * load.block)
    return Sample(sum(count * load.block / 2**20 / took for count, took in done), cpu)


def _read_until(target: Target, load: Load, begin: int, end: float) -> tuple[int, float]:
    """The number of requests, and the seconds that they took."""
    count, blocks = 0, target.size // load.block
    order = itertools.count(begin, load.in_flight)
    handle = os.open(target.path, os.O_RDONLY | os.O_DIRECT)
    try:
        start = time.perf_counter()
        with mmap.mmap(-1, load.block) as buffer:  # page-aligned, as direct I/O needs it
            while not count or time.monotonic() < end:
                place = (random.randrange(blocks) if load.order == "random" else next(order) % blocks) * load.block
                os.preadv(handle, [buffer], target.offset + place)
                count += 1
        return count, time.perf_counter() - start
    finally:
        os.close(handle)


def _cpu_seconds() -> float:
    """The time that all CPUs have worked since boot: user, nice, system, irq, softirq of /proc/stat."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return sum(ticks[:3] + ticks[5:7]) / os.sysconf("SC_CLK_TCK")


def compare(rounds: Rounds, variant: str) -> Comparison:
    """Compare a variant with the default path, round by round."""
    pairs = zip(rounds[variant], rounds[DEFAULT], strict=True)
    ratios = sorted(one.rate / default.rate for one, default in pairs)
    low, *_, high = ratios[LEFT_OUT : len(ratios) - LEFT_OUT]
    return Comparison(statistics.median(ratios), low, high)


def head(variants: Sequence[str]) -> str:
    """The first line of the table."""
    return f"{'load':18}{'raw':>7}{'default':>8}" + "".join(f"{COLUMNS[it]:>15}" for it in variants if it in COLUMNS)


def row(load: Load, rounds: Rounds) -> str:
    """The line of a load."""
    rates = [statistics.median(it.rate for it in rounds[variant]) for variant in (RAW, DEFAULT)]
    cells = [compare(rounds, variant) for variant in rounds if variant in COLUMNS]
    return f"{load.name:18}{rates[0]:7.0f}{rates[1]:8.0f}" + "".join(
        f"{it.ratio:5.2f} {it.low:.2f}-{it.high:.2f}" for it in cells
    )


def verdict(results: Mapping[Load, Rounds]) -> str:
    """The result in a sentence, about both flags if they could be measured together."""
    rounds = next(iter(results.values()))
    variant = next(it for it in (BOTH, READ, WRITE) if it in rounds)
    name = "both flags" if variant == BOTH else variant
    compared = {load.name: compare(some, variant) for load, some in results.items()}
    faster = [load for load, it in compared.items() if it.sign > 0]
    slower = [load for load, it in compared.items() if it.sign < 0]
    cpus = [[it.cpu for some in results.values() for it in some[each]] for each in (variant, DEFAULT)]
    cost = sum(cpus[0]) / sum(cpus[1]) if sum(cpus[1]) else 1.0
    text = f"With {name}, reads were faster in {len(faster)} and slower in {len(slower)} of {len(compared)} loads"
    text += f" ({'; '.join(slower)})" if slower else ""
    text += f" and took {cost:.2f} times the CPU time"
    gains, loses = len(faster) >= CLEAR, len(slower) >= CLEAR
    advice = "do not set the flags" if loses else "the flags gain nothing that is outside of the noise"
    if gains:
        advice = "set the flags if your loads are like the faster ones" if slower else "set the flags"
    text = f"{text}: {advice}. Writes were not measured."
    if statistics.median((it.high - it.low) / it.ratio for it in compared.values()) > WIDE:
        text += " The intervals are wide: measure again while the machine has no other work."
    return text


def document(facts: Facts, found: MappingFacts, results: Mapping[Load, Rounds], sentence: str) -> dict[str, object]:
    """The results with hardware, kernel and cipher, without names of hosts and serial numbers."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^(?:model name|cpu model|cpu)\s*: (.*)", cpuinfo, re.MULTILINE)
    weaknesses = {path.name: path.read_text().strip() for path in sorted(Path(CPUS, "vulnerabilities").glob("*"))}
    segment = found.mapping.segments[0]
    return {
        "program": "dmcrypt-advise --measure",
        "format": 2,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": platform.machine(),
        "cpu": {"model": model[1] if model else "", "count": os.cpu_count(), "mitigations": weaknesses},
        "kernel": asdict(facts.kernel),
        "cipher": {
            "name": segment.cipher,
            "key_bits": segment.key_bits,
            "sector_size": segment.sector_size,
            "driver": asdict(found.driver) if found.driver else None,
        },
        "disks": [asdict(disk) for disk in found.disks],
        "rounds": ROUNDS,
        "results": [
            {
                **asdict(load),
                "variants": {
                    variant: {name: [float(f"{getattr(it, name):.4g}") for it in some] for name in UNITS}
                    for variant, some in rounds.items()
                },
            }
            for load, rounds in results.items()
        ],
        "units": UNITS,
        "verdict": sentence,
    }


def save(measured: Mapping[str, object], directory: Path) -> Path:
    """Write the results to a new file in `directory`; returns its path."""
    path = directory / time.strftime("dmcrypt-advise-%Y%m%d-%H%M%S.json", time.gmtime())
    with path.open("x") as file:
        file.write(json.dumps(measured) + "\n")
    return path
