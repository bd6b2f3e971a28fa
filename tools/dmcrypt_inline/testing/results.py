"""The outcomes of tests: printed next to those of earlier runs, and stored for later runs."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import indent

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.progress import say
from ..guests.runs import kept_runs

RESULTS = "results.json"  # in the directory of a run
OK, NOT_OK, SKIP = "ok", "not ok", "skip"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test file, of a mutant with one of its tests, or of a part of make test."""

    name: str
    counts: Counts
    seconds: float
    details: str = ""

    @property
    def verdict(self) -> str:
        """OK, NOT_OK or SKIP."""
        if self.counts.failed:
            return NOT_OK
        return SKIP if self.counts.skipped and not self.counts.passed else OK


Earlier = Mapping[str, tuple[str, float]]  # verdict and seconds by the name of an outcome


def say_outcome(outcome: Outcome, earlier: Earlier) -> None:
    """Print verdict and duration next to those of the last run, and the details."""
    was = "(was {}, {:.1f} s)".format(*earlier[outcome.name]) if outcome.name in earlier else ""
    say(f"{outcome.verdict} {outcome.name}  {outcome.seconds:.1f} s {was}".rstrip())
    if outcome.details:
        say(indent(outcome.details, "    "))


def store(
    out: Path, settings: Mapping[str, object], outcomes: Sequence[Outcome], content: Mapping[str, object]
) -> Path:
    """Write the results file of a run, with `content`, and return its path."""
    results = [{**asdict(each), "verdict": each.verdict} for each in sorted(outcomes, key=lambda each: each.name)]
    path = out / RESULTS
    path.write_text(json.dumps({"settings": settings, "results": results, **content}, indent=1) + "\n")
    return path


def earlier_outcomes(place: Path, stage: str, settings: Mapping[str, object]) -> Earlier:
    """The newest verdict and duration of each test, from the kept runs with the same settings."""
    found: dict[str, tuple[str, float]] = {}
    for run in reversed(kept_runs(place, stage)):
        with suppress(OSError, ValueError):  # an interrupted run has no results
            content = json.loads((run / RESULTS).read_text())
            if content["settings"] == settings:
                found |= {each["name"]: (each["verdict"], each["seconds"]) for each in content["results"]}
    return found


def run_parts(parts: Mapping[str, Callable[[], object]], earlier: Earlier) -> list[Outcome]:
    """Run the parts of make check or make test one after the other; a part that cannot run counts as one failure.

    A part that returns no Counts counts as one success.
    """
    outcomes = []
    for name, part in parts.items():
        say(f"{name}:")
        start, details = time.monotonic(), ""
        try:
            found = part()
            counts = found if isinstance(found, Counts) else Counts(1, 0, 0)
        except UserError as error:
            counts, details = Counts(0, 1, 0), str(error)
        outcomes.append(Outcome(name, counts, time.monotonic() - start, details))
        say_outcome(outcomes[-1], earlier)
    return outcomes
