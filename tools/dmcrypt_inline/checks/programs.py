"""`make check`, a queue for a program or for scripts.

No patch adds a warning, with -Wextra; the scripts pass shellcheck, and their own test fails without each patch.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..common.gitrepo import git, resolve, update_files, write_tree
from ..common.host import GROUPS
from ..common.progress import step
from ..common.run import CommandError, Completed, run
from ..kernels.build_programs import run_commands
from ..trees.targets import Build
from .checklist import Check, Failed, Queue, diagnostics, fail_if, kept_lines, new_lines
from .sources import succeeds

CFLAGS = "-g -O2 -Wall -Wextra"
TESTS = "test"  # the directory of the tests


def program_checks(queue: Queue) -> list[Check]:
    """The checks of a queue for a program that is built, or for scripts, which nothing builds."""
    checks, build, test = [], queue.target.build, queue.target.own_test
    if build:
        needs = GROUPS[build.packages]
        checks.append(Check("each_patch_builds_without_new_warnings", lambda: _each_builds(queue, build), needs))
    if test:
        checks += [
            Check("changed_scripts_pass_shellcheck", lambda: _shellcheck(queue), ("shellcheck",)),
            Check("each_patch_passes_its_test_that_fails_without_it", lambda: _own_test(queue, test), ("make",)),
        ]
    return checks


def _each_builds(queue: Queue, build: Build) -> None:
    """Build the base, then each patch in the same directory, and compare the warnings with the base's."""
    tree = queue.applied()
    commits = [resolve(tree.path, f"{commit}^{{tree}}", queue.log) for commit in (tree.base, *tree.commits)]
    compiler = run(["gcc", "--version"], log=queue.log, timeout=60).output.splitlines()[0]
    names = [patch.name for patch in queue.patches()]
    fail_if(kept_lines((build, compiler, names, commits), lambda: _new_diagnostics(queue, build)))


def _new_diagnostics(queue: Queue, build: Build) -> list[str]:
    tree, problems = queue.applied(), list[str]()
    title = f"compiling {queue.target.name} after each patch"
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name, step(title, queue.log):
        source = Path(name) / "source"
        update_files(tree.path, tree.base, source, queue.log)
        run_commands(build.configure, source, queue.log, prefix=Path(name) / "prefix", cflags=CFLAGS)
        old = diagnostics(run_commands(build.make, source, queue.log))
        for patch, commit in zip(queue.patches(), tree.commits):
            update_files(tree.path, commit, source, queue.log)
            try:
                found = diagnostics(run_commands(build.make, source, queue.log))
            except CommandError as error:
                raise Failed(f"{patch.name}: it does not build\n{error}") from error
            problems += [f"{patch.name}: {line}" for line in new_lines(found, old)]
    return problems


def _shellcheck(queue: Queue) -> None:
    scripts = [path for path in queue.paths("--diff-filter=d") if path.endswith(".sh")]
    succeeds(["shellcheck", *scripts], queue.log, queue.applied().path)


def _own_test(queue: Queue, test: Sequence[str]) -> None:
    """Run the test on each patch, and on the same tests with the scripts before the patch."""
    tree, problems = queue.applied(), []

    def listed(commit: str, *paths: str) -> list[str]:
        return git(tree.path, "ls-tree", "-r", commit, *paths, log=queue.log).output.splitlines()

    for patch, commit in zip(queue.patches(), tree.commits):
        passed = _run(queue, test, commit)
        if passed.returncode != 0:
            problems.append(f"{patch.name}: its test fails\n{passed.transcript}")
        without = write_tree(tree.path, [*listed(f"{commit}^"), *listed(commit, TESTS)], queue.log)
        if _run(queue, test, without).returncode == 0:
            problems.append(f"{patch.name}: its test passes without the patch")
    fail_if(problems)


def _run(queue: Queue, test: Sequence[str], files: str) -> Completed:
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        source, written = Path(name) / "source", Path(name) / "written"
        written.mkdir()
        update_files(queue.applied().path, files, source, queue.log)
        env = {"TESTDIR": str(written)}
        return run(test, log=queue.log, timeout=300, cwd=source, env=env, check=False)
