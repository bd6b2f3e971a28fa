"""What a benchmark leaves: its samples, gathered by cell, in a results file."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.progress import say
from .inguest.measurements import Load, Measurement, Results, Sample, to_json
from .inguest.workloads import Plan


@dataclass(frozen=True)
class About:
    """What is known of a run besides its samples; `begin` is the monotonic clock (seconds) when it was `started`."""

    environment: Mapping[str, Any]
    plan: Plan
    started: str
    begin: float


def now() -> str:
    """The time, ISO 8601 with time zone, to the second."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


@contextmanager
def kept_on_failure(out: Path, found: Path, about: About) -> Iterator[None]:
    """Write the results of what was measured before the body raised UserError, if anything was; then raise it."""
    try:
        yield
    except UserError as error:
        samples = found / "samples.jsonl"
        if samples.is_file() and samples.stat().st_size:
            finish(out, found, about, failed=f"it failed: {str(error).splitlines()[0]}")
        raise


def finish(out: Path, found: Path, about: About, failed: str = "") -> Path:
    """Write the results of what the measuring program left in `found`, and keep fio's documents beside them.

    Returns the results file. `failed` says why it did not get to its end, "" when it did.
    """
    try:
        text = (found / "samples.jsonl").read_text()
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # whole ones
        cut_short = failed or json.loads((found / "end.json").read_text())["cut_short"]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"the measurement left no results that can be read in {found}: {error}") from error
    seconds = time.monotonic() - about.begin
    plan = about.plan
    results = Results(about.environment, plan.name, about.started, seconds, cut_short, gather(lines))
    name = f"{plan.name}-{datetime.fromisoformat(about.started):%Y%m%d-%H%M%S}"
    raw = out / f"{name}.raw"
    shutil.copytree(found / "raw", raw)
    shutil.copy(found / "samples.jsonl", raw)
    path = out / f"{name}.json"
    fresh = path.with_name(f".{path.name}.part")
    fresh.write_text(to_json(results))
    fresh.rename(path)
    if cut_short:
        say(f"cut short: {cut_short}")
    say(f"{len(lines)} samples of {len(results.measurements)} cells in {seconds:.0f} s; results: {path}")
    return path


def gather(lines: Sequence[Mapping[str, Any]]) -> tuple[Measurement, ...]:
    """The samples, line by line as the measuring program writes them, put together by cell.

    Raises UserError when a cell's table is not the same in all of its samples.
    """
    found: dict[tuple[Load, str, str], tuple[str, list[Sample]]] = {}
    for line in lines:
        cell = (Load.of(line["load"]), line["variant"], line["mode"])
        table, samples = found.setdefault(cell, (line["table"], []))
        if table != line["table"]:
            raise UserError(f"{line['variant']}:{line['mode']} had two tables: {table}; {line['table']}")
        samples.append(Sample(**line["sample"]))
    return tuple(Measurement(*cell, table, tuple(samples)) for cell, (table, samples) in found.items())
