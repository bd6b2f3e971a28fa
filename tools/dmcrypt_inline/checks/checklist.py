"""How a check says what it found: it returns, or raises Failed or Skipped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.gitrepo import git
from ..common.progress import clock, say
from ..trees.series import Tree, driver_commits, read_series
from ..trees.targets import Target

SLOW = 5.0  # seconds


class Failed(Exception):
    """The check found a defect; the text is the part of the log that shows it."""


class Skipped(Exception):
    """The check could not be made; the text says why."""


@dataclass(frozen=True)
class Check:
    """A named check. The name says what holds when it passes. `slow`: make test leaves it to make check."""

    name: str
    call: Callable[[], object]
    slow: bool = False


@dataclass(frozen=True)
class Queue:
    """The queue as it lies in the repository, and applied (None: it does not apply).

    `tree` is on the base that is built; `exact` is on the files of the target's
    tag: the same tree where the base has them. `quick`: only what make test checks.
    What is compiled is compiled for the kernels of `kernel`, or its own (None).
    """

    target: Target
    tree: Tree | None
    exact: Tree | None
    log: Path
    quick: bool = False
    kernel: Tree | None = None

    def patches(self) -> list[Path]:
        """The patch files in order; UserError when series and files disagree."""
        return read_series(self.target)

    def applied(self) -> Tree:
        """The tree that is built, or Skipped when the queue does not apply (which is a failure of its own)."""
        if self.tree is None:
            raise Skipped("the queue does not apply")
        return self.tree

    def driver_commits(self) -> dict[str, str]:
        """The commits that change the driver by their patches' file names, in order; Skipped as above."""
        patches = self.patches()
        return {patches[number - 1].name: commit for number, commit in driver_commits(self.applied(), self.log).items()}

    def changed(self, *suffixes: str) -> Iterator[tuple[str, str, str]]:
        """Patch file name, commit and path of each changed file, or each of such a name, in order; Skipped as above."""
        tree = self.applied()
        for patch, commit in zip(self.patches(), tree.commits):
            options = ("diff-tree", "-r", "--no-commit-id", "--name-only")
            for path in git(tree.path, *options, commit, log=self.log).output.splitlines():
                if not suffixes or path.endswith(suffixes):
                    yield patch.name, commit, path

    def applied_exactly(self) -> Tree:
        """The tree on the files of the target's tag, or Skipped as above."""
        if self.exact is None:
            raise Skipped(f"the queue does not apply to {self.target.tag}")
        return self.exact


def fail_if(problems: Sequence[str]) -> None:
    """Raise Failed with one problem a line, unless there is none."""
    if problems:
        raise Failed("\n".join(problems))


def run_checks(checks: Sequence[Check], quick: bool = False) -> Counts:
    """Run each check and print one line for it: ok, not ok (and what it found below), or skip (and why).

    Those that took long say so. `quick`: the slow ones are only named.
    """
    passed = failed = skipped = 0
    left = [check.name for check in checks if quick and check.slow]
    if left:
        say(f"left to make check: {', '.join(left)}")
    for check in checks:
        if check.name in left:
            continue
        begin = time.monotonic()
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
            took = time.monotonic() - begin
            say(f"ok {check.name}" + (f" [{clock(took)}]" if took >= SLOW else ""))
    return Counts(passed, failed, skipped)
