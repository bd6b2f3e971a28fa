"""Tables of make bench ACCEL=native: the cost of a sector by variant, or of the worker threads."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from ..bench.sectors import NEW_CORE
from . import charts
from .cells import Results
from .statistics import compare, spread
from .tables import Section, Table, figure, quartiles, ratio

KIND = ("form", "instructions", "cipher", "sector", "flags")
CPU_TIME, ELAPSED = "ns_per_512", "elapsed_per_512"
# Disk, device mapper, dm-verity, and the cipher through the crypto API and the AES library.
ALONE = ("raw", "linear", "verity", "api", "library")
FLAGS = {"read": "no_read", "write": "no_write", "inline": "both"}  # the words of sectors.sh
SECTOR_NOTES = (
    "User-Mode Linux: times are those of this processor, without an emulator. Medians over the rounds with their "
    "quartiles. Ratios have their 90 % confidence interval; '=': the interval "
    "holds 1, no difference.",
)
NativeCell = Mapping[str, Any]
Loads = dict[str, dict[str, Sequence[float]]]  # samples by load and variant
SIZES = {4096: "4k", 65536: "64k", 1 << 20: "1M"}


def sector_sections(results: Results) -> list[Section]:
    """A section for each kind of mapping, or one for each cipher with the default path against the flags."""
    cells: list[NativeCell] = results["cells"]
    if any(cell["depth"] > 1 and cell["flags"] == "default" for cell in cells):
        return _default_path(cells)
    found: dict[tuple[Any, ...], list[NativeCell]] = {}
    for cell in cells:
        found.setdefault(tuple(cell[name] for name in KIND), []).append(cell)
    return [_sector_section(kind, of, results) for kind, of in found.items()]


def _load(cell: NativeCell) -> str:
    work = f", {cell['threads']} x {cell['depth']}" if cell["threads"] * cell["depth"] > 1 else ""
    return f"{SIZES[cell['size']]} {cell['direction']}{work}"


def _sector_section(kind: Sequence[Any], of: Sequence[NativeCell], results: Results) -> Section:
    """Nanoseconds per 512 bytes, the ratios to the baseline, and a chart of the requests of 4k and 64k."""
    form, instructions, cipher, sector, flags = kind
    baseline, cpu = results["baseline"], results["environment"]["cpu"]
    variants = list(dict.fromkeys(cell["variant"] for cell in of))
    loads: Loads = {}
    for cell in of:
        loads.setdefault(_load(cell), {})[cell["variant"]] = cell[CPU_TIME]
    times = [
        [load, *(quartiles(spread(found[name]) if name in found else None) for name in variants)]
        for load, found in loads.items()
    ]
    compared = [name for name in variants if name.removesuffix(NEW_CORE) not in ALONE and name != baseline]
    cores = [name for name in variants if name + NEW_CORE in variants]
    tables = [
        Table("Nanoseconds per 512 bytes", ["", *variants], times),
        _ratios(f"Speed / {baseline}", loads, {name: (baseline, name) for name in compared}),
        _ratios("Speed, new device mapper / old", loads, {name: (name, name + NEW_CORE) for name in cores}),
    ]
    drawn = {} if cores else {"Requests of 4k and 64k": partial(_bars, loads)}
    title = f"{form}, {instructions}: {cipher}, sectors of {sector}, {flags}"
    return Section(title, f"{cpu}.", drawn, [table for table in tables if len(table.columns) > 1])


def _ratios(caption: str, loads: Loads, pairs: Mapping[str, tuple[str, str]]) -> Table:
    """A column for each pair of variants: how many times as fast the second is as the first."""
    rows = [
        [load, *(_ratio(found[one], found[other]) if one in found else "-" for one, other in pairs.values())]
        for load, found in loads.items()
    ]
    return Table(caption, ["", *pairs], rows)


def _ratio(reference: Sequence[float], samples: Sequence[float]) -> str:
    """How many times as fast as the reference, over the rounds."""
    return ratio(compare(dict(enumerate(reference)), dict(enumerate(samples))))


def _bars(loads: Loads) -> str:
    """The time of a sector by variant; next to it that of the disk, the device mapper and the cipher alone."""
    panels: dict[str, charts.Panel] = {
        load: {name: (spread(samples), figure(median(samples))) for name, samples in found.items()}
        for load, found in loads.items()
        if not load.startswith("1M") and "," not in load
    }
    return charts.bars(panels, "ns per 512 bytes")


def _default_path(cells: Sequence[NativeCell]) -> list[Section]:
    """The default path against the flags: speed and CPU time."""
    found: dict[tuple[str, str, str], dict[str, dict[str, NativeCell]]] = {}
    for cell in cells:
        if cell["variant"] not in ALONE:
            load = f"{SIZES[cell['size']]} {cell['direction']}, {cell['threads']} x {cell['depth']}"
            kind = (cell["form"], cell["cipher"], cell["variant"])
            found.setdefault(kind, {}).setdefault(load, {})[cell["flags"]] = cell
    sections = []
    for (form, cipher, variant), loads in found.items():
        tables = []
        for name, caption, unit, factor in (
            (ELAPSED, "Speed: flags / default path", "ns per 512 bytes", 1.0),
            (CPU_TIME, "CPU time: default path / flags", "CPU s/GiB", (1 << 21) / 1e9),
        ):
            rows = []
            for load, modes in loads.items():
                default = modes["default"][name]
                compared = [_ratio(default, modes[flags][name]) for flags in FLAGS]
                rows.append([load, figure(median(default) * factor), *compared])
            tables.append(Table(caption, ["threads x in flight", f"default: {unit}", *FLAGS.values()], rows))
        text = "Ratios to the default path; 2 is twice as fast, or half the CPU time. Two CPUs."
        if "nohlt" in form:
            text += " Idle CPUs poll: CPU times say nothing."
        sections.append(Section(f"{form}: {cipher}, {variant}", text, {}, tables))
    return sections
