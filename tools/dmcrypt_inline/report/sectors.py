"""What make bench ACCEL=native measured: nanoseconds of a sector by variant, ratios within a round, where they go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..bench.inguest.stats import spread
from .svg import stacks, standalone

KIND = ("form", "instructions", "cipher", "sector", "flags")
SIZES = {4096: "4k", 65536: "64k", 1 << 20: "1M"}


def text(path: Path) -> str:
    """Tables of all that a results file has."""
    results = json.loads(path.read_text())
    where = results["environment"]
    kinds: dict[tuple[Any, ...], dict[tuple[str, int], dict[str, list[float]]]] = {}
    for cell in results["cells"]:
        rows = kinds.setdefault(tuple(cell[name] for name in KIND), {})
        rows.setdefault((cell["direction"], cell["size"]), {})[cell["variant"]] = cell["ns_per_512"]
    lines = [
        f"{where['target']}, Linux {where['kernel_release']} as User-Mode Linux, one CPU: {where['cpu']}",
        "Nanoseconds per 512 bytes, median (quartiles apart, in % of it); how many times as fast as "
        f"{results['baseline']}, median over the rounds.",
        f"For measuring only: {', '.join(results['measuring'])}",
    ]
    for kind, rows in kinds.items():
        lines += ["", *_table(kind, rows, results["baseline"])]
    return "\n".join(lines)


def chart(path: Path) -> Path:
    """Where the nanoseconds of a sector go, with requests of 64k and the first kind of mapping: an SVG beside the file.

    The cipher alone, sector by sector, is the faster one of `api` and `library`: who has sectors encrypted together may
    take less. The rest is dm-crypt's, the device mapper's and the crypto API's.
    """
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["size"] == 1 << 16]
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
    out = path.with_suffix(".svg")
    out.write_text(standalone(panels, "Where the time of a sector goes"))
    return out


def _table(
    kind: Sequence[Any], rows: Mapping[tuple[str, int], Mapping[str, Sequence[float]]], baseline: str
) -> Iterator[str]:
    form, chosen, cipher, sector, flags = kind
    variants = list(next(iter(rows.values())))
    width = max(17, *(len(name) + 2 for name in variants))
    yield f"{form}, {chosen}, {cipher}, sectors of {sector}, {flags}"
    yield " " * 10 + "".join(name.rjust(width) for name in variants)
    for (direction, size), cells in rows.items():
        shown = []
        for name in variants:
            found = spread(cells[name])
            times = median(one / other for one, other in zip(cells[baseline], cells[name], strict=True))
            ratio = "" if name in (baseline, "raw", "api", "library") else f" {times:.3f}"
            shown.append(f"{found.median:.1f} ({100 * found.iqr:.0f}){ratio}".rjust(width))
        yield f"{SIZES[size]:>4} {direction:<5}" + "".join(shown)
