"""The way back: commits in build/<target>/tree become the queue's patch files."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git, resolve
from ..common.paths import build_dir, is_complete, locked, log_dir
from . import selftests
from .base import BaseTree
from .series import BRANCH, FORMAT, MADE, apply_series, is_in, keep, mark_made, queue_hash, read_series, tree_key
from .targets import Target


def write_back(target: Target, base: BaseTree) -> list[str]:
    """Write the tree's commits into the queue; returns a line for each file that was written or removed.

    The patch of an unchanged commit keeps its file. The files of selftests/dm-crypt and the patch that adds them stay
    equal. Raises UserError, and writes nothing, where the queue would lose something: uncommitted changes, edits
    of the patch files since the tree was made, or edits of the selftests in the tree.
    """
    path = build_dir(target.name) / "tree"
    log = log_dir(target.name) / "refresh.log"
    if not path.is_dir():
        raise UserError(f"there is no tree to take commits from: make tree TARGET={target.name} makes it")
    with locked(path):
        _refuse_losses(target, base, path, log)
        head = resolve(path, "HEAD", log) or ""
        tip = selftests.with_directory(path, head, log) if target.adds_selftests else head
        before = {patch: patch.read_text() for patch in read_series(target)}
        after = _patches(path, tip, list(before.values()), log)
        _write_queue(target, after)
        kept = keep(path, head, log)
        mark_made(path, log)  # the queue has these commits now, and is applied again over them
        (path / ".git" / ".complete").unlink()
    try:
        tree = apply_series(target, base)
    except UserError as error:
        raise UserError(f"{error}\n  your commits are safe: {kept} there") from error
    if resolve(path, f"{tree.series}^{{tree}}", log) != resolve(path, f"{tip}^{{tree}}", log):
        raise UserError(f"the written queue does not make the tree of your commits, which are {kept} in {path}")
    now = read_series(target)
    done = [f"written: {patch}" for patch in now if before.get(patch) != patch.read_text()]
    done += [f"removed: {patch}" for patch in before if patch not in now]
    return done or [f"the queue of {target.name} is what the tree has"]


def _refuse_losses(target: Target, base: BaseTree, path: Path, log: Path) -> None:
    """Raise UserError unless the commits on the branch are all there is, on the queue and base of today."""
    changed = git(path, "status", "--porcelain", "--untracked-files=normal", log=log).output
    branch = git(path, "symbolic-ref", "--quiet", "HEAD", log=log, check=False).output.strip()
    if changed or branch != f"refs/heads/{BRANCH}":
        raise UserError(
            f"{path} has uncommitted changes, or is not on the branch {BRANCH}: see git -C {path} status\n"
            "  commit the changes or git stash -u; finish a rebase or bisect, or switch to the branch"
        )
    key = tree_key(base, queue_hash(read_series(target)))
    if not is_in(path, base.commit, "HEAD", log) or not is_complete(path / ".git", key):
        raise UserError(
            f"{path} was not made from today's patches of {target.name} on {base.origin}\n"
            f"  make tree TARGET={target.name} makes it again, and keeps your commits there in a ref;\n"
            "  cherry-pick them from the ref, then run make refresh again"
        )
    known = {selftests.directory_in(path, MADE, log), selftests.store_directory(path, log)}
    if target.adds_selftests and selftests.directory_in(path, "HEAD", log) not in known:
        raise UserError(
            f"the selftests were edited in {path}; their place is {selftests.SELFTESTS}\n"
            f"  copy the edited files there from {path / selftests.IN_TREE}, then run make refresh again"
        )


def _patches(path: Path, tip: str, before: Sequence[str], log: Path) -> dict[str, str]:
    """The patches of the commits up to `tip`, by file name; `before` are those that the tree was made from."""
    old = git(path, "rev-list", "--reverse", f"refs/tags/base..{MADE}", log=log).output.split()
    commits = git(path, "rev-list", "--reverse", f"refs/tags/base..{tip}", log=log).output.split()
    known = dict(zip(old, before))
    made = {}
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        for number, commit in enumerate(commits, 1):
            context = selftests.CONTEXT if selftests.adds_them(path, commit, log) else ()
            words = (*FORMAT, *context, "--start-number", str(number), "-o", name, "-1", commit)
            for line in git(path, "format-patch", *words, log=log).output.splitlines():
                made[Path(line).name] = known.get(commit) or Path(line).read_text()
    merges = git(path, "rev-list", "--merges", f"refs/tags/base..{tip}", log=log).output.split()
    if merges or not commits or not all(made.values()):
        raise UserError(f"a queue has at least one commit after the tag base, no merge and no empty commit: see {path}")
    return made


def _write_queue(target: Target, patches: dict[str, str]) -> None:
    """Make these patches the queue."""
    for patch in read_series(target):
        if patch.name not in patches:
            patch.unlink()
    for name, text in patches.items():
        (target.patches / name).write_text(text)
    target.series.write_text("".join(f"{name}\n" for name in patches))
