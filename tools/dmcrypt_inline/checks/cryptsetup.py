"""`make check`, a queue for a program that is built: no patch adds a warning, with -Wextra."""

import re
import tempfile
from pathlib import Path

from ..common.gitrepo import resolve, update_files
from ..common.host import GROUPS
from ..common.progress import step
from ..common.run import CommandError, run
from ..kernels.build_programs import build_of, configure_programs, make_programs
from ..trees.targets import Build
from .checklist import Check, Failed, Queue, fail_if, kept_lines, new_lines

CFLAGS = "-g -O2 -Wall -Wextra"
DIAGNOSTIC = re.compile(r"\b(warning|error):")


def cryptsetup_checks(queue: Queue) -> list[Check]:
    if queue.target.build is None:
        return []
    needs = GROUPS[queue.target.build.packages]
    return [Check("each_patch_builds_without_new_warnings", lambda: _each_builds(queue), needs)]


def _each_builds(queue: Queue) -> None:
    """Build the base, then each patch in the same directory, and compare the warnings with the base's."""
    tree = queue.applied()
    commits = [resolve(tree.path, f"{commit}^{{tree}}", queue.log) for commit in (tree.base, *tree.commits)]
    compiler = run(["gcc", "--version"], log=queue.log, timeout=60).output.splitlines()[0]
    names = [patch.name for patch in queue.patches()]
    fail_if(kept_lines((build_of(queue.target), compiler, names, commits), lambda: _new_diagnostics(queue)))


def _new_diagnostics(queue: Queue) -> list[str]:
    tree, build = queue.applied(), build_of(queue.target)
    problems: list[str] = []
    title = f"compiling {queue.target.name} after each patch"
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name, step(title, queue.log):
        source = Path(name) / "source"
        update_files(tree.path, tree.base, source, queue.log)
        configure_programs(build, source, Path(name) / "prefix", CFLAGS, queue.log)
        old = _diagnostics(build, source, queue.log)
        for patch, commit in zip(queue.patches(), tree.commits):
            update_files(tree.path, commit, source, queue.log)
            try:
                found = _diagnostics(build, source, queue.log)
            except CommandError as error:
                raise Failed(f"{patch.name}: it does not build\n{error}") from error
            problems += [f"{patch.name}: {line}" for line in new_lines(found, old)]
    return problems


def _diagnostics(build: Build, source: Path, log: Path) -> list[str]:
    """Build, and return the compiler's warnings without line numbers. Raises CommandError when the build fails."""
    output = make_programs(build, source, log)
    return [re.sub(r":\d+:\d+", "", line) for line in output.splitlines() if DIAGNOSTIC.search(line)]
