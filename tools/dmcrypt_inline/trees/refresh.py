"""The way back: commits in build/<target>/tree become the queue's patch files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git, resolve
from ..common.paths import build_dir, is_complete, locked, log_dir
from . import selftests
from .base import BaseTree
from .mails import parse_mail
from .series import (
    BRANCH,
    FORMAT,
    MADE,
    Tree,
    apply_series,
    history_of,
    keep,
    mark_made,
    queue_hash,
    read_series,
    refuse_under_way,
    tree_key,
    uncommitted,
    with_history,
)
from .targets import Target


def write_back(target: Target, base: BaseTree) -> list[str]:
    """Write the tree's commits into the queue; what was done, line by line.

    A patch whose commit was not touched keeps its file as it is, the files of selftests/dm-crypt
    and the patch that adds them stay equal. Raises UserError, and has changed nothing then, where
    work would be lost or left out: changes that are no commit, and patch files or selftests
    that were edited meanwhile too.
    """
    path = build_dir(target.name) / "tree"
    log = log_dir(target.name) / "refresh.log"
    if not path.is_dir():
        raise UserError(f"there is no tree to take commits from: make edit TARGET={target.name} makes it")
    with locked(path):
        commits = _commits(target, base, path, log)
        head = resolve(path, "HEAD", log) or ""
        from_tree = target.adds_selftests and _selftests_from_tree(path, head, log)
        before = {patch: patch.read_text() for patch in read_series(target)}
        done = _write_patches(target, path, commits, log)
        done += selftests.take(path, head, log) if from_tree else []
        kept = keep(path, head, log)
        mark_made(path, log)  # the queue has these commits now, and is applied again over them
        (path / ".git" / ".complete").unlink()
    tree = _apply_written(target, base, kept)
    if target.adds_selftests and selftests.differences(tree):
        selftests.refresh(tree)
        apply_series(target, base)  # the next refresh wants the tree of these files
    now = read_series(target)
    done += [f"written: {patch}" for patch in now if before.get(patch) != patch.read_text()]
    done += [f"removed: {patch}" for patch in before if patch not in now]
    return done or [f"the queue of {target.name} is what the tree has"]


def _apply_written(target: Target, base: BaseTree, kept: str) -> Tree:
    """Apply the queue as it is now. Raises UserError unless it makes the tree of `kept`, which it was written from."""
    log = log_dir(target.name) / "refresh.log"
    try:
        tree = apply_series(target, base)
    except UserError as error:
        raise UserError(f"{error}\n  your commits are safe: {kept} there") from error
    if resolve(tree.path, f"{tree.series}^{{tree}}", log) != resolve(tree.path, f"{kept}^{{tree}}", log):
        raise UserError(f"the written queue does not make the tree of your commits, which are {kept} in {tree.path}")
    return tree


def _commits(target: Target, base: BaseTree, path: Path, log: Path) -> list[str]:
    """The commits to write, oldest first; UserError where they are not all there is, or no queue."""
    refuse_under_way(path)
    dirty = uncommitted(path, log)
    if dirty:
        raise UserError(
            f"{path} holds changes that are in no commit, and would not get into the queue:\n{dirty}\n"
            f"  commit them (git -C {path} commit -a --amend), or put them aside (git -C {path} stash -u)"
        )
    on = git(path, "symbolic-ref", "--quiet", "HEAD", log=log, check=False).output.strip()
    if on != f"refs/heads/{BRANCH}":
        raise UserError(
            f"{path} is not on the branch {BRANCH}, whose commits become the queue: git -C {path} switch {BRANCH}\n"
            f"  or, for what is checked out: git -C {path} branch -m {BRANCH} old && git -C {path} switch -c {BRANCH}"
        )
    if not (path / ".git" / ".complete").exists():
        raise UserError(
            f"{path} holds only the part of the queue that applies: make edit TARGET={target.name} says what does not"
        )
    if resolve(path, "refs/tags/base^{commit}", log) != base.commit:
        raise UserError(
            f"{path} is not on the base {base.origin}\n"
            f"  give {target.variable}= as it was given to make edit, or leave it out if it was left out then"
        )
    if not is_complete(path / ".git", tree_key(base, queue_hash(read_series(target)))):
        raise UserError(
            f"the patches of {target.name} are no longer those that {path} was made from: that change would be undone\n"
            "  to keep it: git stash it in the project, make refresh, git stash pop, and settle the conflicts\n"
            "  to drop it: git checkout the patches and the series"
        )
    if git(path, "merge-base", "--is-ancestor", "refs/tags/base", "HEAD", log=log, check=False).returncode != 0:
        raise UserError(f"HEAD of {path} does not come after the tag base: git -C {path} switch queue")
    if git(path, "rev-list", "--merges", "refs/tags/base..HEAD", log=log).output.strip():
        raise UserError(f"{path} holds a merge after the tag base, and a queue is a line of patches: rebase it")
    commits = git(path, "rev-list", "--reverse", "refs/tags/base..HEAD", log=log).output.split()
    if not commits:
        raise UserError(f"{path} holds no commit after the tag base: the queue would be empty")
    for commit in commits:
        if git(path, "diff-tree", "--quiet", f"{commit}^", commit, log=log, check=False).returncode == 0:
            raise UserError(f"commit {commit[:12]} in {path} changes nothing, which is no patch: drop it")
    return commits


def _selftests_from_tree(path: Path, head: str, log: Path) -> bool:
    """Whether the selftests were edited in the tree; UserError when in the directory too."""
    was, now, here = selftests.listed(path, MADE, log), selftests.listed(path, head, log), selftests.files()
    if now in (was, here):
        return False
    if here != was:
        raise UserError(
            f"the selftests were edited both in {path} and in {selftests.SELFTESTS}:\n"
            "  take back one of them (git checkout), then run make refresh again"
        )
    return True


def _write_patches(target: Target, path: Path, commits: list[str], log: Path) -> list[str]:
    """Write the commits as the queue's files; what text below --- got lost with a subject, line by line."""
    old = git(path, "rev-list", "--reverse", f"refs/tags/base..{MADE}", log=log).output.split()
    files = read_series(target)
    before = {patch.name: patch.read_text() for patch in files}
    known = dict(zip(old, before.values()))
    histories = {parse_mail(text).summary: history_of(text) for text in before.values()}
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        for number, commit in enumerate(commits, 1):
            adds_tests = selftests.adds_them(path, commit, log)
            words = (*FORMAT, *(selftests.CONTEXT if adds_tests else ()), "--start-number", str(number), "-o", name)
            git(path, "format-patch", *words, "-1", commit, log=log)
        made = {}
        for commit, patch in zip(commits, sorted(Path(name).glob("*.patch"))):
            text = patch.read_text()
            history = histories.pop(parse_mail(text).summary, "")
            made[patch.name] = known.get(commit) or with_history(text, history)
    for name_of_patch, text in made.items():
        if before.get(name_of_patch) != text:
            (target.patches / name_of_patch).write_text(text)
    comments = [line for line in target.series.read_text().splitlines() if not line.strip() or line.startswith("#")]
    text = "".join(f"{line}\n" for line in (*comments, *made))
    if text != target.series.read_text():
        target.series.write_text(text)
    for patch in files:
        if patch.name not in made:
            patch.unlink()
    return [
        f"left out, as no commit is called {subject!r} now, its text below ---:\n{history}"
        for subject, history in histories.items()
        if history
    ]
