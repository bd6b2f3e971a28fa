"""What make bench ACCEL=native measured: nanoseconds of a sector by variant, ratios within a round, where they go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from ..bench.inguest.stats import ERROR, Spread, median_interval, spread
from .svg import lines, stacks, standalone

KIND = ("form", "instructions", "cipher", "sector", "flags")
LOAD = ("variant", *KIND[:-1], "direction", "size", "threads", "depth")
CPU, ELAPSED = "ns_per_512", "elapsed_per_512"
MODES = ("read", "write", "inline")  # as sectors.sh calls the flags
CIPHERS = {"library": "aes"}
POLLING = "nohlt"
Cell = Mapping[str, Any]
SIZES = {4096: "4k", 65536: "64k", 1 << 20: "1M"}


def text(path: Path) -> str:
    """Tables of all that a results file has."""
    results = json.loads(path.read_text())
    where = results["environment"]
    if _by_depth(results["cells"]):
        return "\n".join(_handover(results))
    kinds: dict[tuple[Any, ...], dict[tuple[str, int], dict[str, list[float]]]] = {}
    for cell in results["cells"]:
        rows = kinds.setdefault(tuple(cell[name] for name in KIND), {})
        rows.setdefault((cell["direction"], cell["size"]), {})[cell["variant"]] = cell["ns_per_512"]
    said = [
        f"{where['target']}, Linux {where['kernel_release']} as User-Mode Linux, one CPU: {where['cpu']}",
        "Nanoseconds per 512 bytes, median (quartiles apart, in % of it); how many times as fast as "
        f"{results['baseline']}, median over the rounds.",
        "Below each table, how wide the intervals are that hold the medians of these ratios but for "
        f"{ERROR.numerator} in {ERROR.denominator}.",
        f"For measuring only: {', '.join(results['measuring'])}",
    ]
    for kind, rows in kinds.items():
        said += ["", *_table(kind, rows, results["baseline"])]
    return "\n".join(said)


def chart(path: Path) -> Path:
    """Where the nanoseconds of a sector go, with requests of 64k and the first kind of mapping: an SVG beside the file.

    The cipher alone, sector by sector, is the faster one of `api` and `library`: who has sectors encrypted together may
    take less. The rest is dm-crypt's, the device mapper's and the crypto API's.
    """
    cells = json.loads(path.read_text())["cells"]
    out = path.with_suffix(".svg")
    if _by_depth(cells):
        out.write_text(standalone(list(_over_depth(cells)), "What the hand-over is worth"))
        return out
    cells = [cell for cell in cells if cell["size"] == 1 << 16]
    panels = []
    for form, chosen in dict.fromkeys((cell["form"], cell["instructions"]) for cell in cells):
        here = [cell for cell in cells if (cell["form"], cell["instructions"]) == (form, chosen)]
        kind = [here[0][name] for name in KIND[2:]]
        for direction in ("read", "write"):
            shown = {
                cell["variant"]: median(cell["ns_per_512"])
                for cell in here
                if [cell[name] for name in KIND[2:]] == kind and cell["direction"] == direction
            }
            disk = shown.pop("raw")
            cipher = min((shown.pop(name) for name in ("api", "library") if name in shown), default=0.0)
            ciphers = [min(cipher, value - disk) for value in shown.values()]
            rest = [value - disk - own for value, own in zip(shown.values(), ciphers)]
            parts = {"disk": [disk] * len(rest), "cipher": ciphers, "all else": rest}
            title = f"{form}, {chosen}: {direction} of 64k, sectors of {kind[1]}"
            name = f"sectors-{form}-{chosen}-{direction}"
            panels.append(stacks(name, title, "ns per 512 bytes", parts, list(shown)))
    out.write_text(standalone(panels, "Where the time of a sector goes"))
    return out


def _by_depth(cells: Sequence[Cell]) -> bool:
    """Whether it is about the hand-over; else about sectors, with one request in flight."""
    return any(cell.get("depth", 1) > 1 for cell in cells)


def _modes(cells: Sequence[Cell]) -> dict[tuple[Any, ...], dict[str, Cell]]:
    """Default path and flags that were measured by turns, under the same load: by kind and load."""
    found: dict[tuple[Any, ...], dict[str, Cell]] = {}
    for cell in cells:
        found.setdefault(tuple(cell[name] for name in LOAD), {})[cell["flags"]] = cell
    return {load: modes for load, modes in found.items() if {"default", "inline"} <= modes.keys()}


def _times(modes: Mapping[str, Cell], flags: str, what: str) -> Spread:
    """How many times as long the default path takes, round by round."""
    return spread([one / other for one, other in zip(modes["default"][what], modes[flags][what], strict=True)])


def _handover(results: Mapping[str, Any]) -> Iterator[str]:
    where, heading = results["environment"], ()
    yield f"{where['target']}, Linux {where['kernel_release']} as User-Mode Linux, two CPUs: {where['cpu']}"
    yield "The default path: nanoseconds per 512 bytes, CPU seconds per GiB. Each flag, and both (inline): how many"
    yield "times as fast, how many times less CPU time. Medians over the rounds (quartiles apart, in % of it)."
    yield "Where an idle CPU polls (nohlt) it takes CPU time, too: there it tells nothing."
    yield f"For measuring only: {', '.join(results['measuring'])}"
    for (variant, *kind, direction, size, threads, depth), modes in _modes(results["cells"]).items():
        if heading != (heading := (*kind, variant)):
            yield "\n{}, {}, {}, sectors of {}, {}".format(*heading)
            yield " threads x depth" + "".join(name.rjust(17) for name in ("default", *MODES, "CPU", *MODES))
        elapsed, cpu = (spread(modes["default"][name]) for name in (ELAPSED, CPU))
        shown = [f"{elapsed.median:.1f} ({100 * elapsed.iqr:.0f})"]
        for name in (ELAPSED, CPU):
            times = [_times(modes, flags, name) for flags in MODES]
            shown += [] if name == ELAPSED else [f"{cpu.median * (1 << 21) / 1e9:.3f} ({100 * cpu.iqr:.0f})"]
            shown += [f"{each.median:.2f} ({100 * each.iqr:.0f})" for each in times]
        yield f"{SIZES[size]:>4} {direction:<5} {threads}x{depth}  " + "".join(each.rjust(17) for each in shown)


def _over_depth(cells: Sequence[Cell]) -> Iterator[str]:
    """How many times as fast both flags are as the default path, of one thread, by depth: a panel a form and way."""
    for form in dict.fromkeys(cell["form"] for cell in cells):
        for way in ("read", "write"):
            series: dict[str, dict[float, Spread]] = {}
            for (_, ran, _, cipher, _, direction, size, threads, depth), modes in _modes(cells).items():
                if (ran, direction, threads) == (form, way, 1):
                    name = f"{CIPHERS.get(cipher, cipher)} {SIZES[size]}"
                    series.setdefault(name, {})[depth] = _times(modes, "inline", ELAPSED)
            title = f"Both flags: {way}; an idle CPU {'polls' if POLLING in form else 'sleeps'}"
            across = "requests in flight of one thread, two CPUs"
            unit = "times as fast as the default path"
            yield lines(f"{form}-{way}", title, unit, series, across=across, tick="{:g}".format)


def _table(
    kind: Sequence[Any], rows: Mapping[tuple[str, int], Mapping[str, Sequence[float]]], baseline: str
) -> Iterator[str]:
    form, chosen, cipher, sector, flags = kind
    variants = list(next(iter(rows.values())))
    width = max(17, *(len(name) + 2 for name in variants))
    yield f"{form}, {chosen}, {cipher}, sectors of {sector}, {flags}"
    yield " " * 10 + "".join(name.rjust(width) for name in variants)
    intervals = []
    for (direction, size), cells in rows.items():
        shown = []
        for name in variants:
            found, ratio = spread(cells[name]), ""
            if name not in (baseline, "raw", "api", "library"):
                times = [one / other for one, other in zip(cells[baseline], cells[name], strict=True)]
                ratio = f" {median(times):.3f}"
                low, high = median_interval(times) or (0.0, inf)
                intervals.append(100 * (high - low) / median(times))
            shown.append(f"{found.median:.1f} ({100 * found.iqr:.0f}){ratio}".rjust(width))
        yield f"{SIZES[size]:>4} {direction:<5}" + "".join(shown)
    yield f"intervals: {min(intervals):.1f} to {max(intervals):.1f} %"
