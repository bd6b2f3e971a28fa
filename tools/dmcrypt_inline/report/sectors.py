"""What make bench ACCEL=native measured, as text: nanoseconds of a sector by variant, and ratios within a round."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..bench.inguest.stats import spread

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
