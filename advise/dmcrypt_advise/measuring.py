"""Measure the default path against each flag on this machine; the open mapping stays in use, its disk is only read.

A second mapping of the same device, read-only and with a random key, has the same cipher and sectors: it decrypts to
noise at the same cost. Writes go to a RAM disk. The two mappings alternate, and each round compares its own two values.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import judge, looking
from .errors import AdviseError
from .looking import Facts, MappingFacts
from .mappings import FLAGS, READ, WRITE
from .system import System

ROUNDS = 9
LEFT_OUT = 1  # rounds at each end; the others enclose the true median with a probability of 96 % (binomial, 9 rounds)
RAM_MIB = 64
RAM_DISK = Path("/dev/ram0")
ATTEMPTS, PAUSE = 20, 0.25  # to remove the RAM disk; seconds in between
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GIB = 1 << 30
HEAD = f"{'without, with flag':20} {'MiB/s':>13} {'ratio (96 %)':>17} {'99 % in µs':>13} {'CPU s/GiB':>11}"


@dataclass(frozen=True)
class Workload:
    """Reads or writes, depending on the flag, of `block` bytes by `workers` threads."""

    name: str
    flag: str
    block: int
    workers: int


@dataclass(frozen=True)
class Throughput:
    """`rate` in MiB/s, 99th percentile (`tail`) of a request in µs, CPU seconds of the machine per GiB."""

    rate: float
    tail: float
    cpu: float


WORKLOADS = (
    Workload("4k reads", READ, 4096, 1),
    Workload("1M reads, 4 at once", READ, 1 << 20, 4),
    Workload("4k writes", WRITE, 4096, 1),
    Workload("1M writes, 4 at once", WRITE, 1 << 20, 4),
)


def compare_flags(system: System, name: str, seconds: float, say: Callable[[str], None]) -> None:
    """Measure for about `seconds` and print the result of each workload. Removes everything that it created.

    Raises AdviseError if measuring is impossible (no such mapping, no table, integrity tags) or unsafe on this kernel.
    """
    found, flags = _to_measure(looking.look(system), name)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        with ExitStack() as stack:
            for flag in set(FLAGS) - set(flags):
                say(f"{flag} is not measured: it is unsafe on this kernel")
            devices = _devices(stack, found, flags, say)
            loads = [load for load in WORKLOADS if load.flag in devices]
            if devices:
                say(HEAD)
            for load in loads:
                length = seconds / (2 * ROUNDS * len(loads))
                with _interruptible():
                    rounds = [_round(devices[load.flag], load, length, number) for number in range(ROUNDS)]
                say(result_line(load, rounds))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Allow interrupts. At other times signals wait, because an interrupted dmsetup can leave a mapping behind."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)


def _to_measure(facts: Facts, name: str) -> tuple[MappingFacts, list[str]]:
    """The mapping, and the flags that are safe to try."""
    found, verdict = judge.find_mapping(facts, name)
    if judge.cannot_judge(found, facts):
        raise AdviseError("\n    ".join([f"{name}: cannot be measured", *verdict.reasons]))
    if found.mapping.segments[0].integrity:
        raise AdviseError(f"{name}: cannot be measured: a second mapping would change the integrity tags")
    unsafe = judge.unsafe_flags(found, facts)
    if flags := [flag for flag in FLAGS if flag not in unsafe]:
        return found, flags
    raise AdviseError("\n    ".join([f"{name}: both flags are unsafe on this kernel", *dict.fromkeys(unsafe.values())]))


def _devices(
    stack: ExitStack, found: MappingFacts, flags: Sequence[str], say: Callable[[str], None]
) -> dict[str, tuple[str, str]]:
    """Create for each flag a mapping without it and one with it."""
    segment = found.mapping.segments[0]
    sectors = [f"sector_size:{segment.sector_size}"] if segment.sector_size > 512 else []
    key = os.urandom(segment.key_bits // 8).hex() or "-"
    made = {}
    for flag in flags:
        device, length, offset = segment.device, segment.length, segment.offset
        if flag == WRITE:
            try:
                device, length, offset = stack.enter_context(_ram_disk()), RAM_MIB * 2048, 0
            except AdviseError as error:
                say(f"{flag} is not measured: {error}")
                continue
        start = f"0 {length} crypt {segment.cipher} {key} 0 {device} {offset}"
        one, other = (
            stack.enter_context(_mapping(f"{start} {len(words)} {' '.join(words)}", read_only=flag == READ))
            for words in (sectors, [*sectors, flag])
        )
        made[flag] = (one, other)
    return made


@contextmanager
def _mapping(table: str, *, read_only: bool) -> Iterator[str]:
    """Create a mapping. The table goes through a pipe, because every user may read command lines."""
    name = f"dmcrypt-advise-{os.getpid()}-{random.randrange(1 << 30)}"
    _run(["dmsetup", "create", *(["--readonly"] if read_only else []), name], table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        _run(["dmsetup", "remove", "--retry", name])


@contextmanager
def _ram_disk() -> Iterator[str]:
    if Path("/sys/module/brd").exists() or RAM_DISK.exists():
        raise AdviseError("the RAM disk (module brd) is in use")
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


def _round(devices: tuple[str, str], load: Workload, seconds: float, number: int) -> tuple[Throughput, Throughput]:
    """Measure both devices, in alternating order; returns the results without and with the flag."""
    results = {device: _sample(device, load, seconds) for device in (devices if number % 2 == 0 else devices[::-1])}
    return results[devices[0]], results[devices[1]]


def _sample(device: str, load: Workload, seconds: float) -> Throughput:
    """Run a workload on a device: each thread does one request after the other, at least one."""
    handle = os.open(device, (os.O_WRONLY if load.flag == WRITE else os.O_RDONLY) | os.O_DIRECT)
    request = os.pwritev if load.flag == WRITE else os.preadv
    stop = threading.Event()

    def work() -> list[int]:  # the times of the requests in ns
        times: list[int] = []
        with mmap.mmap(-1, load.block) as buffer:  # page-aligned, as direct I/O needs it
            while not (times and stop.is_set()):
                place = random.randrange(blocks) * load.block
                start = time.perf_counter_ns()
                request(handle, [buffer], place)
                times.append(time.perf_counter_ns() - start)
        return times

    try:
        if not (blocks := os.lseek(handle, 0, os.SEEK_END) // load.block):
            raise AdviseError(f"the device is too small for blocks of {load.block} bytes")
        used, begin = _cpu_seconds(), time.monotonic()
        with ThreadPoolExecutor(load.workers) as pool:
            try:
                workers = [pool.submit(work) for _ in range(load.workers)]
                wait(workers, seconds, FIRST_EXCEPTION)
            finally:
                stop.set()
        times = sorted(it for worker in workers for it in worker.result())
        took, used = time.monotonic() - begin, _cpu_seconds() - used
    except OSError as error:
        raise AdviseError(f"{device}: {load.name}: {error.strerror}") from error
    finally:
        os.close(handle)
    done = len(times) * load.block
    return Throughput(done / 2**20 / took, times[len(times) * 99 // 100] / 1000, used * GIB / done)


def _cpu_seconds() -> float:
    """The time that all CPUs have worked since boot: user, nice, system, irq, softirq of /proc/stat."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return sum(ticks[:3] + ticks[5:7]) / os.sysconf("SC_CLK_TCK")


def result_line(load: Workload, rounds: Sequence[tuple[Throughput, Throughput]]) -> str:
    """The result of a workload: throughput and its ratio, tails, CPU time; each without and with the flag."""
    ratios = sorted(other.rate / one.rate for one, other in rounds)
    ratio = statistics.median(ratios)
    low, *_, high = ratios[LEFT_OUT : len(ratios) - LEFT_OUT]
    verdict = "faster" if low > 1 else "slower" if high < 1 else "cannot tell"
    rates, tails, cpus = (
        [statistics.median(getattr(pair[which], field) for pair in rounds) for which in (0, 1)]
        for field in ("rate", "tail", "cpu")
    )
    figures = f"{rates[0]:6.0f} {rates[1]:6.0f} {ratio:5.2f} ({low:.2f}-{high:.2f})"
    figures += f" {tails[0]:6.0f} {tails[1]:6.0f} {cpus[0]:5.2f} {cpus[1]:5.2f}"
    return f"{load.name:20} {figures}\n{'':20}        with {load.flag}: {verdict}"
