"""Results: of one test file, of one mutant, and the results file of a run, which later runs compare with."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.progress import say
from ..guests.guest import indented
from ..guests.kernel_log import STALLS, KernelWarning
from ..guests.runs import kept_runs
from . import ktap

RESULTS = "results.json"  # in the directory of a run
OK, NOT_OK, SKIP = "ok", "not ok", "skip"


@dataclass(frozen=True)
class TestResult:
    """The result of one test file: its KTAP, its exit status (None: it did not end), the kernel's warnings.

    `cpus`: of the guest. `must_run`: guests have all that the test needs, so a skip is a failure.
    """

    name: str
    report: ktap.Report
    status: int | None
    warnings: tuple[KernelWarning, ...]
    cpus: int = 0
    must_run: bool = False
    seconds: float = 0.0

    @property
    def counts(self) -> Counts:
        """Cases that passed, failed and were skipped; each fault counts as one more failure."""
        cases = self.report.cases
        passed = sum(case.ok and not case.skip for case in cases)
        failed = sum(not case.ok for case in cases) + len(self.faults)
        skipped = sum(case.ok and bool(case.skip) for case in cases) + bool(self.report.skip)
        return Counts(passed, failed, skipped)

    @property
    def verdict(self) -> str:
        """OK, NOT_OK or SKIP."""
        if self.counts.failed:
            return NOT_OK
        return OK if self.counts.passed else SKIP

    @property
    def faults(self) -> tuple[str, ...]:
        """Failures other than those of cases."""
        faults = [*self.report.problems]
        if self.warnings:
            faults.append(f"kernel warning: {self.warnings[0].first}")
        if self.status is None:
            faults.append("the guest ended before the test did")
        elif self.status != self.report.exit_status:
            faults.append(f"exit status {self.status} instead of {self.report.exit_status}")
        skips = [self.report.skip, *(case.skip for case in self.report.cases)]
        if self.must_run and any(skips):
            faults.append(f"skipped, although guests have all it needs: {next(filter(None, skips))}")
        return tuple(faults)

    @property
    def found_defect(self) -> bool:
        """A case failed, or the kernel printed a warning. Stalls do not count, because a busy host causes them."""
        found = any(warning.kind not in STALLS for warning in self.warnings)
        return found or not all(case.ok for case in self.report.cases)

    @property
    def details(self) -> str:
        """The failed cases with their diagnostics, the other faults, and the first kernel warning."""
        lines = []
        for case in self.report.cases:
            if not case.ok:
                lines += [f"not ok {case.name}", *(f"# {line}" for line in case.diagnostics)]
        return "\n".join([*lines, *self.faults, *(warning.excerpt for warning in self.warnings[:1])])


@dataclass(frozen=True)
class MutantResult:
    """The result of one mutant and one test that must catch it; `found` is the failed case or the kernel warning."""

    mutant: str
    test: str
    caught: bool
    found: str
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Mutant and test."""
        return f"{self.mutant} caught by {self.test}"

    @property
    def counts(self) -> Counts:
        """One passed when the mutant was caught, else one failed."""
        return Counts(int(self.caught), int(not self.caught), 0)

    @property
    def verdict(self) -> str:
        """OK when the mutant was caught, else NOT_OK."""
        return OK if self.caught else NOT_OK

    @property
    def details(self) -> str:
        """The failed case or the kernel warning that caught the mutant."""
        return self.found


@dataclass(frozen=True)
class PartResult:
    """The result of one part of make test."""

    name: str
    counts: Counts
    seconds: float

    @property
    def verdict(self) -> str:
        """OK or NOT_OK."""
        return NOT_OK if self.counts.failed else OK

    @property
    def details(self) -> str:
        """Nothing: the part has printed its failures."""
        return ""


Outcome = TestResult | MutantResult | PartResult
Earlier = Mapping[str, tuple[str, float]]  # verdict and seconds by the name of a result


def say_outcome(outcome: Outcome, earlier: Earlier) -> None:
    """Print the verdict and the duration next to those of the last run, and the details of a failure."""
    was = ""
    if outcome.name in earlier:
        verdict, seconds = earlier[outcome.name]
        was = f" (was {verdict}, {seconds:.1f} s)"
    say(f"{outcome.verdict} {outcome.name}  {outcome.seconds:.1f} s{was}")
    if outcome.details and (outcome.verdict == NOT_OK or isinstance(outcome, MutantResult)):
        say(indented(outcome.details))


def to_json(outcome: Outcome) -> dict[str, object]:
    """One element of "results" in the results file."""
    return {"name": outcome.name, "verdict": outcome.verdict, **asdict(outcome)}


def earlier_outcomes(place: Path, stage: str, settings: Mapping[str, object]) -> Earlier:
    """The newest verdict and duration of each test, from the kept runs with the same settings."""
    found: dict[str, tuple[str, float]] = {}
    for content in reversed(_contents(place, stage)):
        if content["settings"] == settings:
            found |= {each["name"]: (each["verdict"], each["seconds"]) for each in content["results"]}
    return found


def failed_last(place: Path, stage: str) -> list[str]:
    """The names of the results that were not ok in the last run; empty when there was no run."""
    contents = _contents(place, stage)
    return [each["name"] for each in contents[0]["results"] if each["verdict"] == NOT_OK] if contents else []


def _contents(place: Path, stage: str) -> list[dict[str, Any]]:
    """The results files of the kept runs, the newest first. A run that was interrupted has none."""
    found = []
    for run in kept_runs(place, stage):
        with suppress(OSError, ValueError):
            found.append(json.loads((run / RESULTS).read_text()))
    return found


def run_parts(parts: Mapping[str, Callable[[], Counts]], earlier: Earlier) -> list[PartResult]:
    """Run the parts of make check or make test one after the other; a part that cannot run counts as one failure."""
    results = []
    for name, part in parts.items():
        start = time.monotonic()
        try:
            counts = part()
        except UserError as error:
            say(f"{name} cannot run: {error}")
            counts = Counts(0, 1, 0)
        results.append(PartResult(name, counts, time.monotonic() - start))
        say_outcome(results[-1], earlier)
    return results
