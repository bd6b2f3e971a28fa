"""Which cells of a run belong together in a chart or table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from ..bench.inguest import labels
from ..bench.inguest.measurements import RAW, Load, Measurement, Results
from ..bench.inguest.stats import raw_of

FIELDS = tuple(field.name for field in fields(Load) if field.name != "workload")
WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "curves")


def loads(results: Results, workload: str) -> list[Load]:
    """The loads of a workload that some mapping was measured under, in the order of the run."""
    mapped = (cell.load for cell in results.measurements if cell.variant != RAW)
    return [load for load in dict.fromkeys(mapped) if load.workload == workload]


def cells(results: Results, load: Load) -> list[Measurement]:
    """Everything measured under this load; the raw device below it first."""
    found = [cell for cell in results.measurements if cell.load == load and cell.variant != RAW and cell.samples]
    raw = raw_of(results, found[0]) if found else None
    return [raw, *found] if raw is not None and raw.samples else found


def names(results: Results, of: Iterable[Load]) -> list[str]:
    """The names of all cells under these loads, each once."""
    return list(dict.fromkeys(labels.cell(cell) for load in of for cell in cells(results, load)))


def groups(of: Iterable[Load], field: str) -> list[list[Load]]:
    """The loads that differ in this field only, together, by rising value; those that left it alone are left out."""
    found: dict[Load, list[Load]] = {}
    for load in of:
        value: Any = getattr(load, field)
        if value:
            neutral: Any = (0, 0) if field == "block_sizes" else type(value)()
            found.setdefault(replace(load, **{field: neutral}), []).append(load)
    together = [sorted(group, key=lambda load: _order(getattr(load, field))) for group in found.values()]
    longest = max(map(len, together), default=0)
    return [group for group in together if len(group) > 1 or longest == 1]


def _order(value: Any) -> Any:
    """Names stay in the order of the run, numbers rise."""
    return 0 if isinstance(value, str) else value


def shared(of: Sequence[Load]) -> list[str]:
    """The fields that are the same in all of these loads."""
    return [name for name in FIELDS if len({getattr(load, name) for load in of}) == 1]


def setting(of: Sequence[Load]) -> str:
    """What all of these loads have in common, in words."""
    return "Load: " + labels.describe(of[0], [name for name in FIELDS if name not in shared(of)])


def apart(load: Load, of: Sequence[Load], without: Sequence[str] = ()) -> str:
    """What sets this load apart from the others, in words, but for the fields `without`; its direction if nothing."""
    return labels.describe(load, [*shared(of), *without]) or load.rw
