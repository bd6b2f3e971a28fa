"""make demo: tables, a LUKS2 volume and a short measurement in one boot."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .errors import UserError
from .guest import run_guest
from .machine import Machine
from .paths import build_dir
from .progress import say
from .results import environment, write
from .w1 import CELLS, Cell, summarise

ROUNDS = 5
TIMEOUT = 600.0  # seconds; it takes about 90 on 2 cores without KVM

NOISY = 0.25  # a spread above this says more about the machine than about the code

# What the queue promises for W1: (cell, direction, times the base's default path).
PROMISES = (
    ("series:both", "read", 6.0),
    ("series:both", "write", 7.0),
    ("series:default", "read", 0.97),
    ("series:default", "write", 0.97),
)


def run(machine: Machine) -> int:
    """Show the queue at work on the fast kernel; the modules are base and series.

    Returns 0: figures are compared with what the queue promises and shown, but a
    busy machine is no error. Raises UserError when a step in the guest fails or
    the kernel complains.
    """
    kernel = machine.kernel
    out = build_dir(kernel.target) / "demo"
    chosen = machine.accel()
    say(f"booting Linux {kernel.release} ({kernel.flavour}, {chosen}); console: {out / 'guest' / 'console.log'}")
    load = os.getloadavg()
    result = run_guest(
        kernel,
        "demo.sh",
        name="demo",
        out=out / "guest",
        accel=chosen,
        timeout=TIMEOUT,
        inputs={f"variants/{name}.ko": module.path for name, module in machine.modules.items()},
        env={"ROUNDS": str(ROUNDS), "CRYPTSETUP_PREFIX": str(machine.cryptsetup.prefix)},
        on_line=say,
    )
    result.require_success()
    raw = _read_rounds(result.results)
    cells = summarise(raw)
    verdicts = judge(cells)
    path = write(
        out / "results.json",
        environment(machine, chosen),
        {
            "seconds": result.seconds,
            "load_average": load,
            "cells": [asdict(cell) for cell in cells],
            "promises": verdicts,
            "tables": _read_tables(result.results),
            "fio": raw,
        },
    )
    say(render(cells))
    for verdict in verdicts:
        say(str(verdict["text"]))
    noisiest = max(cells, key=lambda cell: cell.throughput.iqr)
    if noisiest.throughput.iqr > NOISY:
        say(
            f"do not rely on these figures: {noisiest.name} {noisiest.direction} spreads over "
            f"{noisiest.throughput.iqr:.0%} of its median; is the machine busy?"
        )
    say(f"results: {path}")
    return 0


def _read_rounds(results: Path) -> list[list[dict[str, object]]]:
    rounds = []
    for number in range(1, ROUNDS + 1):
        files = [results / f"w1-{number}-{variant}.json" for variant in ("base", "series")]
        try:
            rounds.append([json.loads(path.read_text()) for path in files])
        except (OSError, ValueError) as error:
            raise UserError(f"round {number} left no result that can be read: {error}") from error
    return rounds


def _read_tables(results: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(results.glob("w1-1-*.tables"))}


def judge(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """Compare the medians with the promises: what was promised, what came, whether it was kept."""
    ratio = {(cell.name, cell.direction): cell.ratio for cell in cells}
    verdicts: list[dict[str, object]] = []
    for name, direction, promised in PROMISES:
        measured = ratio[name, direction].median
        kept = measured >= promised
        text = (
            f"{'kept' if kept else 'MISSED'}: {name} {direction} {measured:.2f} of base:default, promised {promised:g}"
        )
        verdicts.append({"text": text, "measured": measured, "promised": promised, "kept": kept})
    return verdicts


def render(cells: Sequence[Cell]) -> str:
    """The table for the terminal: medians, spread, ratio to the base's default path of the same round."""
    found = {(cell.name, cell.direction): cell for cell in cells}
    lines = [
        "",
        f"4k, one job, RAM disk, null cipher; medians of {ROUNDS} rounds, spread: quartiles over median",
        f"{'':28}{'read MiB/s':>11}{'spread':>8}{'x base':>8}{'write MiB/s':>13}{'spread':>8}{'x base':>8}",
    ]
    for name in CELLS:
        row = f"{name:28}"
        for direction, width in (("read", 11), ("write", 13)):
            cell = found[name, direction]
            row += f"{cell.throughput.median:>{width}.1f}{cell.throughput.iqr:>8.1%}{cell.ratio.median:>8.2f}"
        lines.append(row)
    return "\n".join(lines) + "\n"
