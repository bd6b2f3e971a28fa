"""`make check`, what only kernel queues have: checkpatch, and a W=1 build with sparse of every patch."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from .build import Prepared, lay_out_module, make_module, prepare_kernel
from .checks import Check, Queue, fail_if
from .gitrepo import git, resolve
from .progress import step
from .run import run
from .series import Tree

BUILT_ELSEWHERE = ("Documentation/", "tools/testing/selftests/")  # nothing that a W=1 build of dm-crypt would see
DIAGNOSTIC = re.compile(r"\b(warning|error):")


def linux_checks(queue: Queue) -> list[Check]:
    """The checks of a kernel's queue."""
    return [
        Check("checkpatch_strict_is_silent", lambda: _checkpatch(queue)),
        Check("each_patch_builds_without_warnings", lambda: _each_builds(queue)),
    ]


def _checkpatch(queue: Queue) -> None:
    """The target's own checkpatch, CHECK messages included; only the missing sign-off is allowed."""
    tree = queue.applied()
    script = tree.path / "scripts" / "checkpatch.pl"
    problems = []
    for patch in queue.patches():
        argv = ["perl", str(script), "-q", "--strict", "--show-types", "--ignore", "MISSING_SIGN_OFF", str(patch)]
        # HOME: a .checkpatch.conf of the user's must not decide.
        done = run(argv, log=queue.log, timeout=300, cwd=tree.path, env={"HOME": str(tree.path)}, check=False)
        if done.returncode != 0:
            problems.append(f"{patch.name}:\n{done.output.strip()}")
    fail_if(problems)


def _each_builds(queue: Queue) -> None:
    """Compile dm-crypt as it is after each patch with W=1 and sparse; what the base already says is not the queue's."""
    tree = queue.applied()
    prepared = prepare_kernel(tree, "fast")
    problems = []
    before = resolve(tree.path, f"{tree.base}:{tree.target.source}", queue.log)
    with step("compiling dm-crypt after each patch", queue.log):
        known = _diagnostics(tree, prepared, tree.base, queue.log)
        for patch, commit in zip(queue.patches(), tree.commits):
            changed = git(tree.path, "diff-tree", "-r", "--no-commit-id", "--name-only", commit, log=queue.log).output
            for path in changed.splitlines():
                if path != tree.target.source and not path.startswith(BUILT_ELSEWHERE):
                    problems.append(f"{patch.name}: it changes {path}, which this check does not build")
            blob = resolve(tree.path, f"{commit}:{tree.target.source}", queue.log)
            if blob != before:
                found = _diagnostics(tree, prepared, commit, queue.log)
                problems += [f"{patch.name}: {line}" for line in found if line not in known]
            before = blob
    fail_if(problems)


def _diagnostics(tree: Tree, prepared: Prepared, commit: str, log: Path) -> list[str]:
    """What compiler and sparse say about dm-crypt.c at `commit`, without line numbers; CommandError when it fails."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        directory = Path(name)
        source = directory / "source.c"
        source.write_text(git(tree.path, "show", f"{commit}:{tree.target.source}", log=log).output)
        lay_out_module(directory, source)
        output = make_module(prepared.objects, directory, log, "W=1", "C=1", "dm-crypt.o")
    lines = [line for line in output.splitlines() if DIAGNOSTIC.search(line)]
    return [re.sub(r":\d+:\d+", "", line.replace(name, "drivers/md")) for line in lines]
