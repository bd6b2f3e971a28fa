"""How a check says what it found: it returns, or raises Failed or Skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import UserError
from .progress import say
from .results import Counts


class Failed(Exception):
    """The check found a defect; the text is the part of the log that shows it."""


class Skipped(Exception):
    """The check could not be made; the text says why."""


@dataclass(frozen=True)
class Check:
    """A named check. The name says what holds when it passes."""

    name: str
    call: Callable[[], None]


def fail_if(problems: Sequence[str]) -> None:
    """Raise Failed with one problem a line, unless there is none."""
    if problems:
        raise Failed("\n".join(problems))


def run_checks(checks: Sequence[Check]) -> Counts:
    """Run each check and print one line for it: ok, not ok (and what it found below), or skip (and why)."""
    passed = failed = skipped = 0
    for check in checks:
        try:
            check.call()
        except Skipped as reason:
            skipped += 1
            say(f"skip {check.name}: {reason}")
        except (Failed, UserError) as finding:
            failed += 1
            say(f"not ok {check.name}")
            for line in str(finding).splitlines():
                say(f"    {line}")
        else:
            passed += 1
            say(f"ok {check.name}")
    return Counts(passed, failed, skipped)
