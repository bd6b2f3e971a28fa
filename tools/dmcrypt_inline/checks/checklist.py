"""The result of a check: it returns, or raises Failed or Skipped."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import indent

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.gitrepo import git
from ..common.host import install_commands, is_installed
from ..common.paths import GIB, log_dir, publish, use_entry
from ..common.progress import say
from ..trees.series import Tree, read_series
from ..trees.targets import Target


class Failed(Exception):
    """The check found a defect; the text shows it."""


class Skipped(Exception):
    """The check does not apply; the text gives the reason."""


@dataclass(frozen=True)
class Check:
    """A named check. The name says what holds when it passes.

    `needs`: the programs without which it fails. `slow`: `make test` does not run it, `make check` does.
    """

    name: str
    call: Callable[[], object]
    needs: tuple[str, ...] = ()
    slow: bool = False


@dataclass(frozen=True)
class Queue:
    """A queue's files, and the tree with the queue applied, which is made when a check needs it.

    `quick`: check only what `make test` checks. `kernel`: the tree whose kernels the driver is compiled for, None for
    this queue's own.
    """

    target: Target
    apply: Callable[[], Tree]
    quick: bool = False
    kernel: Callable[[], Tree | None] = lambda: None

    def patches(self) -> list[Path]:
        """The patch files in order. Raises UserError when series and files disagree."""
        return read_series(self.target)

    @cached_property
    def log(self) -> Path:
        """The log of these checks, which begins empty."""
        path = log_dir(self.target.name) / "check.log"
        path.unlink(missing_ok=True)
        return path

    @cached_property
    def tree(self) -> Tree | None:
        """The tree, None if the queue does not apply."""
        with suppress(UserError):
            return self.apply()
        return None

    def applied(self) -> Tree:
        """The tree. Raises Skipped when the queue does not apply, because another check fails then."""
        if self.tree is None:
            raise Skipped("the queue does not apply")
        return self.tree

    def paths(self, *options: str) -> list[str]:
        """The paths that the complete queue changes; `options` of git diff select some."""
        tree, words = self.applied(), ("diff", "--no-renames", "--name-only")
        return git(tree.path, *words, tree.base, tree.series, *options, log=self.log).output.splitlines()

    @cached_property
    def changes(self) -> list[tuple[str, str, str]]:
        """Patch file name, commit and path of each file that a patch changes."""
        tree, found = self.applied(), []
        for patch, commit in zip(self.patches(), tree.commits):
            options = ("diff-tree", "-r", "--no-commit-id", "--name-only")
            paths = git(tree.path, *options, commit, log=self.log).output.splitlines()
            found += [(patch.name, commit, path) for path in paths]
        return found


def fail_if(problems: Sequence[str]) -> None:
    """Raise Failed with one problem a line, unless the list is empty."""
    if problems:
        raise Failed("\n".join(problems))


def new_lines(found: Iterable[str], old: Iterable[str]) -> list[str]:
    """The lines that occur more often in `found` than in `old`."""
    return list((Counter(found) - Counter(old)).elements())


def diagnostics(messages: str) -> list[str]:
    """The warnings and errors among a compiler's messages, without line numbers."""
    found = [line for line in messages.splitlines() if re.search(r"\b(warning|error):", line)]
    return [re.sub(r":\d+:\d+", "", line) for line in found]


def kept_lines(inputs: Iterable[object], find: Callable[[], list[str]]) -> list[str]:
    """The lines that `find` returns; from the cache, if this code has found them for the same inputs before.

    `inputs` must describe all that `find` reads. Raises what `find` raises, and keeps nothing then.
    """
    packages = (Path(__file__).parent, Path(__file__).parents[1] / "kernels")
    code = [path.read_text() for package in packages for path in sorted(package.glob("*.py"))]
    key = hashlib.sha256("\0".join(map(str, [*inputs, *code])).encode()).hexdigest()
    place = use_entry("diagnostics", key[:16])

    def fill(part: Path) -> None:
        (part / "lines").write_text("".join(f"{line}\n" for line in find()))

    return (publish(place, fill, GIB // 16, "a build of a patch") / "lines").read_text().splitlines()


def run_checks(checks: Sequence[Check], quick: bool = False) -> Counts:
    """Run each check and print its result: ok, not ok and the findings, or skip and the reason.

    `quick`: only name the slow checks.
    """
    passed = failed = skipped = 0
    slow = [check.name for check in checks if quick and check.slow]
    if slow:
        say(f"only in make check: {', '.join(slow)}")
    for check in checks:
        if check.name in slow:
            continue
        try:
            if missing := [program for program in check.needs if not is_installed(program)]:
                raise Failed(f"not installed: {' '.join(missing)}\n{install_commands(missing)}")
            check.call()
        except Skipped as reason:
            skipped += 1
            say(f"skip {check.name}: {reason}")
        except (Failed, UserError) as finding:
            failed += 1
            say(f"not ok {check.name}")
            say(indent(str(finding), "    "))
        else:
            passed += 1
            say(f"ok {check.name}")
    return Counts(passed, failed, skipped)
