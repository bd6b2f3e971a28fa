"""make bench HERE=1: the same matrix on the running kernel, for figures from real hardware."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import BUILD, TOOLS
from ..common.progress import clock, say
from ..common.run import run
from ..guests.environment import CPUINFO, Environment, cpu_model, version
from .gather import About, finish, kept_on_failure, now
from .guest_run import BOOT, Terminal, written
from .inguest import measure
from .inguest.orders import ALL_KINDS, Order, Variant
from .inguest.userdevice import admitted, named
from .inguest.workloads import BRD, Cell, Plan

RUNNING = "running"  # the variant's name, and where its results lie below build/
NEEDED = ("fio", "dmsetup", "blockdev", "modprobe", "cryptsetup")
CLEANUP = 120.0  # seconds in which an interrupted measurement removes its mappings and devices from the user's machine
SYSTEM_PATH = "/usr/sbin:/sbin"  # where they lie, which is not in every user's PATH


def measure_here(plan: Plan, device: str, destroy: str) -> Path:
    """Measure the plan on the running kernel: on RAM disks and null_blk, or on the user's `device` ("" for none).

    Raises UserError for a device that may not be used (see userdevice.py), and when it is not run as root.
    """
    if os.geteuid() != 0:
        raise UserError("measuring the running kernel makes devices and mappings: run it as root")
    os.environ["PATH"] += f":{SYSTEM_PATH}"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise UserError(f"not installed here: {', '.join(missing)}\n  apt-get install fio dmsetup cryptsetup-bin kmod")
    writes, user_device = True, None
    if device:
        user_device = named(device)
        writes = admitted(device, destroy, partial(run, log=BUILD / RUNNING / "blkid.log", timeout=60))
        say(f"{device} {'IS OVERWRITTEN' if writes else 'is only read'}")
    elif destroy:
        raise UserError("DESTROY_DATA= without DEVICE=: give the device's name twice")
    plan = replace(plan, cells=tuple(suited(plan.cells, device, writes)))
    out = BUILD / RUNNING / "bench"
    results = out / "measured"
    shutil.rmtree(results, ignore_errors=True)
    variants = (Variant(RUNNING, ALL_KINDS, "", strict=False),)
    order = Order(plan, variants, shutil.which("cryptsetup") or "", writes, user_device)
    say(f"measuring {plan.name} on the running Linux {platform.release()}; at most {clock(plan.seconds)}")
    started, begin = now(), time.monotonic()
    terminal = Terminal()
    with written(out, order) as place:
        done = run(
            [sys.executable, "-s", "-m", measure.__name__, place, results],
            log=out / "output.log",
            timeout=plan.seconds * 1.5 + BOOT,
            env={"PYTHONPATH": str(TOOLS)},
            check=False,
            on_line=terminal.line,
            grace=CLEANUP,
        )
    about = About(_environment(), plan, started, begin)
    with kept_on_failure(out, results, about):
        if done.returncode != 0:
            said = done.output.strip().splitlines()[-1]
            raise UserError(f"the measurement failed\n{said}\n  log: {out / 'output.log'}")
    return finish(out, results, about)


def suited(cells: Iterable[Cell], device: str, writes: bool) -> Iterable[Cell]:
    """The cells that can be measured here: on the user's device, if there is one, else without emulated disks.

    A device that must not be written to is only read, and its queue left as it is.
    """
    found: dict[Cell, None] = {}
    for cell in cells:
        load = cell.load
        if load.cpu_load:
            load = replace(load, cpu_load=os.cpu_count() or 1)  # all of them, as in a guest
        if device:
            load = replace(load, device=device)
            if not writes and (load.rw not in ("read", "randread") or load.scheduler or load.max_sectors_kb):
                continue
        elif load.device.split()[0] not in (BRD, "null_blk"):
            continue
        found[replace(cell, load=load)] = None
    if not found:
        raise UserError(
            "nothing in this plan can be measured on a device that is only read\n"
            "  choose another PLAN=, or a device that may be overwritten (DESTROY_DATA=)"
        )
    return found


def _environment() -> Mapping[str, object]:
    """What is known of this machine, in the fields of environment.Environment."""
    log = BUILD / RUNNING / "versions.log"
    versions = {name: run([name, "--version"], log=log, timeout=60, check=False).output for name in ("fio", "dmsetup")}
    cryptsetup = run(["cryptsetup", "--version"], log=log, timeout=60).output.split()
    return asdict(
        Environment(
            target=RUNNING,
            queue_hash="",
            kernel_release=platform.release(),
            kernel_flavour="running",
            kernel_key="",
            accel="none",
            cpu=cpu_model(CPUINFO.read_text()),
            modules={RUNNING: _text(Path("/sys/module/dm_crypt/srcversion"))},
            cryptsetup=cryptsetup[1],
            cryptsetup_queue_hash="",
            tools={name: version(text) for name, text in versions.items()},
        )
    )


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
