"""`make check`, the cryptsetup queue alone: each patch builds with more warnings enabled than upstream enables."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

from ..common.gitrepo import git
from ..common.progress import step
from ..common.run import CommandError
from ..kernels.build_cryptsetup import configure, make
from .checklist import Check, Failed, Queue, fail_if

CFLAGS = "-g -O2 -Wall -Wextra"
DIAGNOSTIC = re.compile(r"\b(warning|error):")


def cryptsetup_checks(queue: Queue) -> list[Check]:
    """The checks of the cryptsetup queue."""
    return [Check("each_patch_builds_without_new_warnings", lambda: _each_builds(queue), ("autoconf", "gcc", "make"))]


def _each_builds(queue: Queue) -> None:
    """Build the base, then each patch in the same directory, and compare the warnings with the base's."""
    tree = queue.applied()
    problems = []
    title = "compiling cryptsetup after each patch"
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name, step(title, queue.log):
        source = Path(name) / "source"
        source.mkdir()
        _check_out(tree.path, tree.base, source, queue.log)
        configure(source, Path(name) / "prefix", CFLAGS, queue.log)
        old = Counter(_diagnostics(source, queue.log))
        for patch, commit in zip(queue.patches(), tree.commits):
            _check_out(tree.path, commit, source, queue.log)
            try:
                found = Counter(_diagnostics(source, queue.log))
            except CommandError as error:
                raise Failed(f"{patch.name}: it does not build\n{error}") from error
            problems += [f"{patch.name}: {line}" for line in (found - old).elements()]
    fail_if(problems)


def _check_out(tree: Path, commit: str, source: Path, log: Path) -> None:
    """Check out `commit` in `source`. Files that do not change keep their times, so make does not rebuild them."""
    index = {"GIT_INDEX_FILE": str(source.parent / "index")}
    git(tree, f"--work-tree={source}", "read-tree", "--reset", "-u", commit, log=log, env=index)


def _diagnostics(source: Path, log: Path) -> list[str]:
    """Build, and return the compiler's warnings without line numbers. Raises CommandError when the build fails."""
    output = make(source, log, "all") + make(source, log, "check", "TESTS=")
    return [re.sub(r":\d+:\d+", "", line) for line in output.splitlines() if DIAGNOSTIC.search(line)]
