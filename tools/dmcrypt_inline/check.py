"""`make check`, the queue's half: mails, application, checkpatch, and a clean build of every patch."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .base import BaseTree
from .build import Prepared, lay_out_module, make_module, prepare_kernel
from .checks import Check, Failed, Skipped, fail_if, run_checks
from .errors import UserError
from .gitrepo import git, resolve
from .lint import source_checks
from .mails import cover_problems, index_problems, parse_mail, patch_problems
from .paths import REPO, log_dir
from .progress import step
from .results import Counts
from .run import run
from .series import Tree, apply_series, read_series
from .targets import Target

BUILT_ELSEWHERE = ("Documentation/", "tools/testing/selftests/")  # nothing that a W=1 build of dm-crypt would see
DIAGNOSTIC = re.compile(r"\b(warning|error):")


@dataclass(frozen=True)
class Queue:
    """The queue as it lies in the repository, and `tree`: as it lies applied (None: it does not apply)."""

    target: Target
    tree: Tree | None
    log: Path

    def patches(self) -> list[Path]:
        """The patch files in order; UserError when series and files disagree."""
        return read_series(self.target)

    def applied(self) -> Tree:
        """The tree, or Skipped when the queue does not apply (which is a failure of its own)."""
        if self.tree is None:
            raise Skipped("the queue does not apply")
        return self.tree


def check(target: Target, base: BaseTree, env: Path) -> Counts:
    """Run every check that needs no guest. `env` is the Python environment."""
    log = log_dir(target.name) / "check.log"
    log.unlink(missing_ok=True)
    reason: UserError | None = None
    tree = None
    try:
        tree = apply_series(target, base)
    except UserError as error:
        reason = error
    queue = Queue(target, tree, log)

    def applies() -> None:
        if reason is not None:
            raise reason

    checks = [
        Check("series_and_patch_files_agree", lambda: _agree(queue)),
        Check("patches_are_proper_mails", lambda: _mails(queue)),
        Check("cover_letter_lists_the_patches", lambda: _cover(queue)),
        Check("queue_applies_with_git_am", applies),
        Check("index_lines_are_true", lambda: _index_lines(queue)),
        Check("checkpatch_strict_is_silent", lambda: _checkpatch(queue)),
        Check("each_patch_builds_without_warnings", lambda: _each_builds(queue)),
        *source_checks(env, log),
    ]
    return run_checks(checks)


def _agree(queue: Queue) -> None:
    queue.patches()


def known_authors(log: Path) -> list[str]:
    """Who may sign as author: the repository's own git identities, as 'Name <address>'.

    They come from its history: in a fresh clone the configured identity is the
    reader's. Before the first commit, and outside a repository, the configured one counts.
    """
    asked = git(REPO, "log", "--format=%an <%ae>", log=log, check=False)
    if asked.returncode == 0:
        return sorted(set(asked.output.splitlines()))
    values = []
    for name in ("user.name", "user.email"):
        values.append(run(["git", "-C", REPO, "config", name], log=log, timeout=60, check=False).output.strip())
    return [f"{values[0]} <{values[1]}>"] if all(values) else []


def _mails(queue: Queue) -> None:
    patches = queue.patches()
    authors = known_authors(queue.log)
    problems = []
    for number, patch in enumerate(patches, 1):
        found = patch_problems(patch.read_text(), number, len(patches), authors)
        problems += [f"{patch.name}: {problem}" for problem in found]
    fail_if(problems)
    if not authors:
        raise Skipped("this is no git repository, so nobody knows who the author should be; the rest is right")


def _cover(queue: Queue) -> None:
    if not queue.target.cover.is_file():
        raise Failed(f"there is no {queue.target.cover}")
    summaries = [parse_mail(patch.read_text()).summary for patch in queue.patches()]
    fail_if(cover_problems(queue.target.cover.read_text(), summaries))


def _index_lines(queue: Queue) -> None:
    tree = queue.applied()
    problems = []
    for patch, commit in zip(queue.patches(), tree.commits):
        raw = git(tree.path, "diff-tree", "-r", "--no-commit-id", "--full-index", commit, log=queue.log).output
        blobs = {line.split()[2]: line.split()[3] for line in raw.splitlines()}
        problems += [f"{patch.name}: {problem}" for problem in index_problems(patch.read_text(), blobs)]
    fail_if(problems)


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
