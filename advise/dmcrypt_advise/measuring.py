"""The default path against each flag, here: two minutes beside the open mapping, whose disk is only read.

A second mapping of the same device, read-only and with a key thrown away, has the same cipher and sectors: what it
decrypts is noise, at the same cost. Writes go to a RAM disk. By turns, and compared within each round.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import judge, looking
from .errors import AdviseError
from .looking import Facts, Found
from .mappings import READ, WRITE
from .system import System

ROUNDS = 9
LEFT_OUT = 1  # rounds at each end; the rest holds the median with a probability of 96 % (binomial, 9 rounds)
RAM_MIB = 64
RAM_DISK = Path("/dev/ram0")
ATTEMPTS, PAUSE = 20, 0.25  # to remove the RAM disk; seconds in between
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GIB = 1 << 30
HEAD = f"{'without, with flag':20} {'MiB/s':>13} {'ratio (96 %)':>17} {'99 % in µs':>13} {'CPU s/GiB':>11}"


@dataclass(frozen=True)
class Load:
    """What is done: blocks of so many bytes, by so many at once, reads or writes, perhaps beside busy CPUs."""

    name: str
    flag: str
    block: int
    workers: int
    busy: bool = False


@dataclass(frozen=True)
class Sample:
    """MiB/s; of a request the median and the 99th percentile in µs; CPU seconds of the machine for each GiB."""

    rate: float
    median: float
    tail: float
    cpu: float


LOADS = (
    Load("4k reads", READ, 4096, 1),
    Load("1M reads, 4 at once", READ, 1 << 20, 4),
    Load("4k reads, CPUs busy", READ, 4096, 1, busy=True),
    Load("4k writes", WRITE, 4096, 1),
    Load("1M writes, 4 at once", WRITE, 1 << 20, 4),
)


def measure(system: System, name: str, seconds: float, say: Callable[[str], None]) -> None:
    """Measure for about so many seconds, and say a line for each load. Nothing stays behind.

    Raises AdviseError where nothing is to be measured: no such mapping, no table, tags, or a defect of this kernel.
    """
    facts = looking.look(system)
    found, flags = _to_measure(facts, name)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        with ExitStack() as stack:
            devices = _devices(stack, found, flags, say)
            loads = [load for load in LOADS if load.flag in devices]
            length = seconds / (2 * ROUNDS * len(loads)) if loads else 0
            if loads:
                say(HEAD)
            for load in loads:
                with _busy(load.busy), _interruptible():
                    rounds = [_round(devices[load.flag], load, length, number) for number in range(ROUNDS)]
                say(line(load, rounds))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let signals in. At other times they wait: an interrupted dmsetup can leave a mapping behind."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)


def _to_measure(facts: Facts, name: str) -> tuple[Found, frozenset[str]]:
    """The mapping, and the flags that can be tried without harm."""
    for found, verdict in zip(facts.found, judge.judge(facts), strict=True):
        if found.mapping.name != name:
            continue
        if not found.mapping.segments or not facts.kernel.has_flags:
            raise AdviseError("\n    ".join([f"{name}: cannot be measured", *verdict.reasons]))
        if found.mapping.segments[0].integrity:
            raise AdviseError(f"{name}: sectors have tags, which a second mapping beside it would change")
        unsafe = judge.unsafe(found, facts)
        if unsafe.keys() >= {READ, WRITE}:
            raise AdviseError("\n    ".join([f"{name}: not tried on this kernel", *dict.fromkeys(unsafe.values())]))
        return found, frozenset({READ, WRITE} - unsafe.keys())
    raise AdviseError(f"no dm-crypt mapping {name} is open")


def _devices(
    stack: ExitStack, found: Found, flags: frozenset[str], say: Callable[[str], None]
) -> dict[str, tuple[str, str]]:
    """By flag: the mapping without it and the one with it."""
    segment = found.mapping.segments[0]
    sectors = [f"sector_size:{segment.sector_size}"] if segment.sector_size > 512 else []
    key = os.urandom(segment.key_bits // 8).hex() or "-"
    begin = f"crypt {segment.cipher} {key} 0"
    made = {}
    for flag in (READ, WRITE):
        if flag not in flags:
            say(f"{flag} is not tried: it is not safe on this kernel")
            continue
        device, length, offset = segment.device, segment.length, segment.offset
        if flag == WRITE:
            try:
                device, length, offset = stack.enter_context(_ram_disk()), RAM_MIB * 2048, 0
            except AdviseError as error:
                say(f"{flag} is not measured: {error}")
                continue
        tables = [
            f"0 {length} {begin} {device} {offset} {len(words)} {' '.join(words)}"
            for words in (sectors, [*sectors, flag])
        ]
        one, other = (stack.enter_context(_mapping(table, read_only=flag == READ)) for table in tables)
        made[flag] = (one, other)
    return made


@contextmanager
def _mapping(table: str, *, read_only: bool) -> Iterator[str]:
    """A mapping of our own. The table goes through a pipe: others may read command lines."""
    name = f"dmcrypt-advise-{os.getpid()}-{random.randrange(1 << 30)}"
    _run(["dmsetup", "create", *(["--readonly"] if read_only else []), name], table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        _run(["dmsetup", "remove", "--retry", name])


@contextmanager
def _ram_disk() -> Iterator[str]:
    if Path("/sys/module/brd").exists() or RAM_DISK.exists():
        raise AdviseError("the RAM disk (brd) is in use")
    _run(["modprobe", "brd", "rd_nr=1", f"rd_size={RAM_MIB * 1024}"])
    try:
        yield str(RAM_DISK)
    finally:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _run(["modprobe", "-r", "brd"])
                break
            except AdviseError:  # udev may still read the disk
                if attempt == ATTEMPTS:
                    raise
                time.sleep(PAUSE)


def _run(argv: Sequence[str], given: str = "") -> None:
    try:
        subprocess.run(argv, input=given, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise AdviseError(f"{' '.join(argv)}: {why.strip()}") from error


@contextmanager
def _busy(wanted: bool) -> Iterator[None]:
    """Each CPU has something else to do."""
    programs = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1 if wanted else 0)
    ]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def _round(devices: tuple[str, str], load: Load, seconds: float, number: int) -> tuple[Sample, Sample]:
    """Both, the first one by turns; returns without and with the flag."""
    order = devices if number % 2 == 0 else devices[::-1]
    samples = [_sample(device, load, seconds) for device in order]
    return (samples[0], samples[1]) if number % 2 == 0 else (samples[1], samples[0])


@dataclass(frozen=True)
class _Worker:
    """Requests one after the other, one at least, until `until` (of the monotonic clock) or `stop`; times in ns."""

    load: Load
    handle: int
    size: int
    until: float
    times: list[int]
    failed: list[OSError]
    stop: threading.Event

    def work(self) -> None:
        request = os.pwritev if self.load.flag == WRITE else os.preadv
        with mmap.mmap(-1, self.load.block) as buffer:  # begins at a page, as direct I/O wants it
            while not self.stop.is_set():
                place = random.randrange(self.size // self.load.block) * self.load.block
                begin = time.perf_counter_ns()
                try:
                    request(self.handle, [buffer], place)
                except OSError as error:
                    self.failed.append(error)
                    return
                self.times.append(time.perf_counter_ns() - begin)
                if time.monotonic() >= self.until:
                    return


def _sample(device: str, load: Load, seconds: float) -> Sample:
    handle = os.open(device, (os.O_WRONLY if load.flag == WRITE else os.O_RDONLY) | os.O_DIRECT)
    times: list[int] = []
    failed: list[OSError] = []
    stop = threading.Event()
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        if size < load.block:
            raise AdviseError(f"too small for blocks of {load.block} bytes")
        used, begin = _cpu_seconds(), time.monotonic()
        worker = _Worker(load, handle, size, begin + seconds, times, failed, stop)
        threads = [threading.Thread(target=worker.work) for _ in range(load.workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        took, used = time.monotonic() - begin, _cpu_seconds() - used
    finally:
        os.close(handle)
    if failed:
        raise AdviseError(f"{device}: {load.name}: {failed[0].strerror}")
    done = len(times) * load.block
    tail = sorted(times)[len(times) * 99 // 100]
    return Sample(done / 2**20 / took, statistics.median(times) / 1000, tail / 1000, used * GIB / done)


def _cpu_seconds() -> float:
    """What all CPUs have worked so far: user, nice, system, irq, softirq of /proc/stat."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return sum(ticks[:3] + ticks[5:7]) / os.sysconf("SC_CLK_TCK")


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The median of paired ratios, and the interval that holds the true one with a probability of 96 %."""
    inner = sorted(ratios)[LEFT_OUT : len(ratios) - LEFT_OUT]
    return statistics.median(ratios), inner[0], inner[-1]


def line(load: Load, rounds: Sequence[tuple[Sample, Sample]]) -> str:
    """What the rounds say of a load: throughput and its ratio, tails, CPU time; each without and with the flag."""
    ratio, low, high = interval([other.rate / one.rate for one, other in rounds])
    told = "faster" if low > 1 else "slower" if high < 1 else "cannot tell"
    rates, tails, cpus = (
        [statistics.median(getattr(pair[which], field) for pair in rounds) for which in (0, 1)]
        for field in ("rate", "tail", "cpu")
    )
    cpu = "" if load.busy else f" {cpus[0]:5.2f} {cpus[1]:5.2f}"
    figures = (
        f"{rates[0]:6.0f} {rates[1]:6.0f} {ratio:5.2f} ({low:.2f}-{high:.2f}) {tails[0]:6.0f} {tails[1]:6.0f}{cpu}"
    )
    return f"{load.name:20} {figures}\n{'':20}        with {load.flag}: {told}"
