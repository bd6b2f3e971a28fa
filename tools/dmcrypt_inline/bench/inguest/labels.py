"""How loads, cells and figures are called in tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields

from . import stats
from .measurements import RAW, Load, Measurement, Results
from .stats import Ratio, Spread

KIB, MIB = 1 << 10, 1 << 20


def size(number: int) -> str:
    """Bytes as fio writes them: 512, 4k, 1M."""
    for unit, name in ((MIB, "M"), (KIB, "k")):
        if number >= unit and number % unit == 0:
            return f"{number // unit}{name}"
    return str(number)


def block_sizes(load: Load) -> str:
    """One size, or the smallest and the largest."""
    low, high = load.block_sizes
    return size(low) if low == high else f"{size(low)} to {size(high)}"


def cell(measurement: Measurement) -> str:
    """Variant and mode; the raw device is just 'raw'."""
    return cell_name(measurement.variant, measurement.mode)


def cell_name(variant: str, mode: str) -> str:
    """The same, for who has no measurement yet."""
    return RAW if variant == RAW else f"{variant}:{mode}"


def baseline(results: Results) -> str:
    """What the ratios of these results are to: "base:default"."""
    return ":".join(stats.baseline(results))


# What a field of Load says in words; "" where it goes without saying.
PARTS: Mapping[str, Callable[[Load], str]] = {
    "rw": lambda load: load.rw,
    "block_sizes": block_sizes,
    "cipher": lambda load: f"{load.cipher} cipher" if load.cipher == "null" else load.cipher,
    "sector_size": lambda load: f"sectors of {load.sector_size}",
    "queue_depth": lambda load: f"queue depth {load.queue_depth}",
    "jobs": lambda load: "1 job" if load.jobs == 1 else f"{load.jobs} jobs",
    "scheduler": lambda load: f"scheduler {load.scheduler}" if load.scheduler else "",
    "max_sectors_kb": lambda load: f"requests up to {load.max_sectors_kb} KiB" if load.max_sectors_kb else "",
    "engine": lambda load: "" if load.engine == "psync" else load.engine,
    "cpu_load": lambda load: f"{load.cpu_load} CPUs kept busy" if load.cpu_load else "",
    "device": lambda load: load.device,
}
assert {field.name for field in fields(Load)} == {*PARTS, "workload"}


def describe(load: Load, without: Iterable[str] = ()) -> str:
    """A load in words, but for the fields named in `without`."""
    left = [name for name in PARTS if name not in set(without)]
    return ", ".join(filter(None, (PARTS[name](load) for name in left)))


def figure(number: float) -> str:
    """Three digits or a few more, for a table: 0.058, 0.58, 12.3, 552, 11000."""
    digits = next((digits for digits, least in enumerate((100, 10, 0.1)) if abs(number) >= least), 3)
    return f"{number:.{digits}f}"


def with_range(spread: Spread) -> str:
    """A median with its quartiles."""
    return f"{figure(spread.median)} ({figure(spread.low)} to {figure(spread.high)})"


def ratio_text(ratio: Ratio | None) -> str:
    """A ratio with its quartiles; a dash where there is none."""
    return with_range(ratio.spread) if ratio else "-"
