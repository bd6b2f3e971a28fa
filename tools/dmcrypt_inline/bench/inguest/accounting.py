"""Who used the CPUs: /proc before and after, subtracted.

A thread's time is what the scheduler counted, to the nanosecond; time in interrupts
is that of /proc/stat. Where the kernel has IRQ_TIME_ACCOUNTING, as in our guests,
both are exact and none is counted twice. Elsewhere interrupts are sampled at clock
ticks and also lie in the time of the thread they met.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")
USER_HZ = 100  # ticks a second in /proc/stat and /proc/PID/stat; part of the x86 ABI
# Columns of the line "cpu" in /proc/stat; see proc(5). Those of user and system are sampled at ticks, which
# miss threads that run for less, as those that wait for each other do: theirs come from the threads.
COLUMNS = {"irq": 6, "softirq": 7}
GATE = "dmcrypt-gate"  # what fio's jobs run before and after their I/O; see sampling.py
WORKER = re.compile(r"kworker/[^-+]*[-+](.*)")  # "+" while it works for the queue, "-" afterwards
CONTEXTS = ("jobs", "kcryptd", "write_thread", "cryptd", "other_threads")


@dataclass(frozen=True)
class Thread:
    """One thread: the context it belongs to ("" for none of CONTEXTS), its CPU seconds so far, those in user mode."""

    context: str
    seconds: float
    user: float


@dataclass(frozen=True)
class Snapshot:
    """Of the whole machine since its boot: CPU seconds in interrupts by kind, context switches, and its threads."""

    interrupts: Mapping[str, float]
    switches: int
    threads: Mapping[int, Thread]


def parse_stat(text: str) -> tuple[dict[str, float], int]:
    """The text of /proc/stat: CPU seconds in interrupts by kind, and context switches."""
    lines = {line.split(maxsplit=1)[0]: line.split() for line in text.splitlines() if line}
    cpu = {kind: int(lines["cpu"][column]) / USER_HZ for kind, column in COLUMNS.items()}
    return cpu, int(lines["ctxt"][1])


def context_of(comm: str) -> str:
    """Where a thread belongs, by its name in /proc/PID/stat.

    Worker threads carry the work queue they last worked for: "kworker/u4:1-kcryptd/252:0".
    """
    found = WORKER.match(comm)
    queue = found[1] if found else ""
    if queue.startswith("kcryptd"):  # kcryptd_io too
        return "kcryptd"
    if queue.startswith("cryptd"):
        return "cryptd"
    if comm.startswith("dmcrypt_write"):
        return "write_thread"
    if comm == "fio":
        return "jobs"
    if comm.startswith("ksoftirqd/") or comm in (GATE, "sh"):  # fio runs it by a shell
        return ""  # softirq time in /proc/stat; part of the measuring
    return "other_threads"


def parse_thread(stat: str, schedstat: str) -> Thread:
    """One thread from its files; without schedstat ("", in ns) the ticks of stat."""
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    nice = int(fields[16]) > 0  # the load beside a measurement; see measure.busy
    ticks = int(fields[11]) + int(fields[12])
    # "0 0 0" is also what a kernel says that does not count (nodelayacct).
    exact = int(schedstat.split(maxsplit=1)[0]) / 1e9 if schedstat else 0.0
    seconds = exact or ticks / USER_HZ
    user = min(seconds, int(fields[11]) / USER_HZ)
    return Thread("" if nice else context_of(name), seconds, user)


def threads(proc: Path = PROC) -> dict[int, Thread]:
    """All threads but our own, by their number; one that ends meanwhile is left out."""
    found = {}
    own = str(os.getpid())
    for task in proc.glob("[0-9]*/task/[0-9]*"):
        if task.parent.parent.name == own:
            continue  # what it costs to look
        counted = task / "schedstat"
        with suppress(OSError):
            stat = (task / "stat").read_text(errors="replace")
            found[int(task.name)] = parse_thread(stat, counted.read_text() if counted.exists() else "")
    return found


def system() -> tuple[dict[str, float], int]:
    """The whole machine, now, as parse_stat has it."""
    return parse_stat((PROC / "stat").read_text())


def usage(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """What was used between two snapshots, as the fields of a Sample: cpu_seconds, by_context, context_switches.

    Both ways of dividing the CPU seconds have the same sum: what the threads of CONTEXTS
    and the interrupts took. A load beside the measurement and the measuring are left out.
    A worker counts for the work queue it last worked for. Time in user mode is known to a tick.
    """
    contexts = dict.fromkeys(CONTEXTS, 0.0)
    user = 0.0
    for number, thread in after.threads.items():
        if thread.context:
            earlier = before.threads.get(number, Thread(thread.context, 0.0, 0.0))
            contexts[thread.context] += max(0.0, thread.seconds - earlier.seconds)
            user += max(0.0, thread.user - earlier.user)
    all_threads = sum(contexts.values())
    user = min(user, all_threads)
    interrupts = {kind: max(0.0, after.interrupts[kind] - before.interrupts[kind]) for kind in COLUMNS}
    return {
        "cpu_seconds": {"user": user, "system": all_threads - user, **interrupts},
        "by_context": {**contexts, **interrupts},
        "context_switches": after.switches - before.switches,
    }
