"""`make check`, a queue for scripts: shellcheck, and the test of the queue, which must fail without each patch."""

import tempfile
from pathlib import Path

from ..common.gitrepo import git, update_files, write_tree
from ..common.run import Completed, run
from ..trees.targets import OwnTest
from .checklist import Check, Queue, fail_if
from .sources import succeeds


def script_checks(queue: Queue) -> list[Check]:
    test = queue.target.own_test
    if test is None:
        return []
    return [
        Check("changed_scripts_pass_shellcheck", lambda: _shellcheck(queue), ("shellcheck",)),
        Check("each_patch_passes_its_test_that_fails_without_it", lambda: _own_test(queue, test), ("make",)),
    ]


def _shellcheck(queue: Queue) -> None:
    scripts = [path for path in queue.paths("--diff-filter=d") if path.endswith(".sh")]
    succeeds(["shellcheck", *scripts], queue.log, queue.applied().path)


def _own_test(queue: Queue, test: OwnTest) -> None:
    """Run the test on each patch, and on the same tests with the scripts before the patch."""
    tree, problems = queue.applied(), []

    def listed(commit: str, *paths: str) -> list[str]:
        return git(tree.path, "ls-tree", "-r", commit, *paths, log=queue.log).output.splitlines()

    for patch, commit in zip(queue.patches(), tree.commits):
        passed = _run(queue, test, commit)
        if passed.returncode != 0:
            problems.append(f"{patch.name}: its test fails\n{passed.transcript}")
        without = write_tree(tree.path, [*listed(f"{commit}^"), *listed(commit, test.directory)], queue.log)
        if _run(queue, test, without).returncode == 0:
            problems.append(f"{patch.name}: its test passes without the patch")
    fail_if(problems)


def _run(queue: Queue, test: OwnTest, files: str) -> Completed:
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        source, written = Path(name) / "source", Path(name) / "written"
        written.mkdir()
        update_files(queue.applied().path, files, source, queue.log)
        env = {"TESTDIR": str(written)}
        return run(test.command, log=queue.log, timeout=300, cwd=source, env=env, check=False)
