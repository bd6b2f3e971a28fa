"""`make check`, what only cryptsetup's queue has: a build of every patch with more warnings than its own."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

from ..common.gitrepo import git
from ..common.progress import step
from ..common.run import CommandError
from ..kernels.build_cryptsetup import configure, make
from ..trees.series import Tree
from .checklist import Check, Failed, Queue, fail_if

CFLAGS = "-g -O2 -Wall -Wextra"
DIAGNOSTIC = re.compile(r"\b(warning|error):")


def cryptsetup_checks(queue: Queue) -> list[Check]:
    """The checks of cryptsetup's queue."""
    return [Check("each_patch_builds_without_new_warnings", lambda: _each_builds(queue))]


def _each_builds(queue: Queue) -> None:
    """Compile what each patch changes, in one place, after the base; what the base already says is not the queue's."""
    tree = queue.applied()
    problems = []
    title = "compiling cryptsetup after each patch"
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name, step(title, queue.log):
        source = Path(name) / "source"
        source.mkdir()
        _take(tree, tree.base, source, queue.log)
        configure(source, Path(name) / "nowhere", CFLAGS, queue.log)
        known = Counter(_diagnostics(source, queue.log))
        for patch, commit in zip(queue.patches(), tree.commits):
            _take(tree, commit, source, queue.log)
            try:
                found = Counter(_diagnostics(source, queue.log))
            except CommandError as error:
                raise Failed(f"{patch.name}: it does not build\n{error}") from error
            problems += [f"{patch.name}: {line}" for line in (found - known).elements()]
    fail_if(problems)


def _take(tree: Tree, commit: str, source: Path, log: Path) -> None:
    """Bring `source` to `commit`; files that stay the same keep their times, so that make leaves them alone."""
    index = {"GIT_INDEX_FILE": str(source.parent / "index")}
    git(tree.path, f"--work-tree={source}", "read-tree", "--reset", "-u", commit, log=log, env=index)


def _diagnostics(source: Path, log: Path) -> list[str]:
    """What the compiler says, without line numbers, about what has changed; CommandError when it fails."""
    output = make(source, log, "all") + make(source, log, "check", "TESTS=")
    return [re.sub(r":\d+:\d+", "", line) for line in output.splitlines() if DIAGNOSTIC.search(line)]
