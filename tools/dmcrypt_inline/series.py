"""Stage 'queue applied': build/<target>/tree, one commit a patch, tags `base` and `series`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from .base import BaseTree
from .errors import UserError
from .gitrepo import git, resolve
from .paths import SOURCE_TREE, build_dir, is_complete, locked, log_dir, publish, stamp
from .progress import step
from .run import CommandError
from .targets import Target

BRANCH = "queue"
# How a commit becomes a patch file: the same everywhere, and nothing in it that changes when the patch does not.
FORMAT = ("--zero-commit", "--no-signature", "--no-numbered", "--abbrev=12")


@dataclass(frozen=True)
class Tree:
    """The base with the queue applied: a git repository with a work tree.

    `base` and `series` are the commits of the tags; `commits` has one id a patch,
    in order, so commits[-1] == series when the queue is not empty. `queue_hash`
    identifies the patches (sha256, hex).
    """

    target: Target
    path: Path
    base: str
    series: str
    commits: tuple[str, ...]
    queue_hash: str
    origin: str


def parse_series(text: str) -> list[str]:
    """The patch names of a quilt series file, in order: one a line, comments and blank lines skipped."""
    names = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if words:
            names.append(words[0])
    return names


def read_series(target: Target) -> list[Path]:
    """The patch files of the target's queue, in order.

    Raises UserError when the series file is missing or empty, names a patch
    twice, names one that does not exist, or does not name one that does.
    """
    try:
        names = parse_series(target.series.read_text())
    except FileNotFoundError:
        raise UserError(f"the queue of {target.name} has no series file: {target.series}") from None
    there = sorted(path.name for path in target.patches.glob("*.patch"))
    problems = [f"{name} is named twice" for name in sorted(set(names)) if names.count(name) > 1]
    problems += [f"{name} is in the series, but not in {target.patches}" for name in names if name not in there]
    problems += [f"{name} is in {target.patches}, but not in the series" for name in there if name not in names]
    if not names:
        problems.append("it names no patch")
    if problems:
        raise UserError(f"{target.series} and the patch files disagree:\n" + "\n".join("  " + p for p in problems))
    return [target.patches / name for name in names]


def queue_hash(patches: list[Path]) -> str:
    """sha256 (hex) over the patches' names and contents, in order."""
    digest = hashlib.sha256()
    for patch in patches:
        content = patch.read_bytes()
        digest.update(f"{patch.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def tree_key(base: BaseTree, hashed: str) -> str:
    """What a tree is stamped with that has the queue of this hash on this base."""
    return f"{base.commit} {hashed}"


def apply_series(target: Target, base: BaseTree, name: str = "tree") -> Tree:
    """Make build/<target>/<name>, or reuse it when base and queue are what they were.

    Raises UserError when a patch does not apply, and when the tree holds work of
    the user's: nothing of that is ever thrown away.
    """
    patches = read_series(target)
    log = log_dir(target.name) / f"{name}.log"
    path = build_dir(target.name) / name
    hashed = queue_hash(patches)
    key = tree_key(base, hashed)
    publish(path, lambda part: _clone(base, part, log), SOURCE_TREE, "the tree")
    with locked(path):
        _refuse_changes(target.name, path, log)
        if not is_complete(path / ".git", key):
            (path / ".git" / ".complete").unlink(missing_ok=True)
            with step(f"applying the queue of {target.name} ({len(patches)} patches)", log):
                _apply(base, patches, path, log)
                _note_result(path, log)
                stamp(path / ".git", key)
    listed = git(path, "rev-list", "--reverse", "base..series", log=log).output.split()
    series = resolve(path, "series^{commit}", log) or ""
    return Tree(target, path, base.commit, series, tuple(listed), hashed, base.origin)


def _clone(base: BaseTree, part: Path, log: Path) -> None:
    """Hard links where the cache is on the same disk: no second copy, yet the cache may be deleted."""
    with step("checking out the base", log):
        git(part, "clone", "-q", "--template=", "--branch", "base-tree", base.repo, part, log=log, timeout=900)
        git(part, "remote", "remove", "origin", log=log)
        git(part, "config", "gc.auto", "0", log=log)


def _note_result(path: Path, log: Path) -> None:
    head = resolve(path, "HEAD", log)
    (path / ".git" / "dmcrypt-inline-head").write_text(f"{head}\n")


def _refuse_changes(target: str, path: Path, log: Path) -> None:
    """Raise UserError when the tree that we finished earlier is no longer as we left it."""
    if not (path / ".git" / ".complete").exists():
        return  # ours and unfinished: nobody has been given it yet
    left = (path / ".git" / "dmcrypt-inline-head").read_text().strip()
    dirty = git(path, "status", "--porcelain", log=log).output.strip()
    if dirty:
        what = "files that differ from the last commit:\n" + "\n".join("    " + x for x in dirty.splitlines()[:10])
    elif resolve(path, "HEAD", log) != left or resolve(path, "series^{commit}", log) != left:
        what = "commits that the queue did not make"
    else:
        return
    raise UserError(
        f"{path} holds changes of yours: {what}\n"
        "  they are not part of the queue, so they would be lost, or measured under a wrong name.\n"
        f"  to keep them: commit them, then make refresh TARGET={target} writes the commits into the queue;\n"
        f"  to drop them: git -C {path} reset --hard {left[:12]} && git -C {path} clean -fd"
        f" && git -C {path} tag -f series {left[:12]}"
    )


def _apply(base: BaseTree, patches: list[Path], path: Path, log: Path) -> None:
    git(path, "am", "--abort", log=log, check=False)  # what an interrupted run may have left
    (path / ".git" / "index.lock").unlink(missing_ok=True)
    git(path, "fetch", "-q", "--no-tags", base.repo, "base", log=log)
    git(path, "tag", "-f", "base", base.commit, log=log)
    git(path, "checkout", "-q", "-f", "-B", BRANCH, base.commit, log=log, timeout=900)
    git(path, "clean", "-q", "-fd", log=log)
    for patch in patches:
        try:
            # The committer's date is the author's: the same queue has the same commit ids on every machine.
            git(path, "am", "-q", "--committer-date-is-author-date", patch, log=log)
        except CommandError as error:
            git(path, "am", "--abort", log=log, check=False)
            raise UserError(f"{patch.name} does not apply to the base ({base.origin})\n{error}") from error
    git(path, "tag", "-f", "series", "HEAD", log=log)
