"""Stage 'queue applied': build/<target>/tree, one commit a patch, tags `base` and `series`."""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git, resolve
from ..common.paths import GIB, SOURCE_TREE, build_dir, is_complete, locked, log_dir, publish, require_space, stamp
from ..common.progress import say, step
from ..common.run import CommandError
from .base import BaseTree
from .targets import Target

BRANCH = "queue"
# What is checked out of a kernel until somebody wants to edit it: what its scripts need that checks run. They want
# to see the top of a kernel, with each directory there; include/ has no files of its own.
CHECKED_OUT = ("/*", "!/*/*/", "/include/keys/**", "/scripts/**", "/tools/docs/**", "/tools/lib/python/**")
MADE = "refs/dmcrypt-inline/series"  # the last commit that the tools made: HEAD differs when the user has worked there
SET_ASIDE = "refs/dmcrypt-inline/set-aside"
# How a commit becomes a patch file: the same everywhere, and nothing in it that changes when the patch does not.
FORMAT = ("--zero-commit", "--no-signature", "--abbrev=12")


@dataclass(frozen=True)
class Tree:
    """The base with the queue applied: a git repository. A kernel's has few files checked out before `check_out_all`.

    `base` and `series` are the commits of the tags, `commits` those of the patches in order. `queue_hash` identifies
    the patches (sha256, hex); `origin` and `taken` are the base's.
    """

    target: Target
    path: Path
    base: str
    series: str
    commits: tuple[str, ...]
    queue_hash: str
    origin: str
    taken: tuple[Path, str] | None = None


def parse_series(text: str) -> list[str]:
    """The patch names of a quilt series file, in order: one a line, comments and blank lines skipped."""
    lines = [line.split("#", 1)[0].split() for line in text.splitlines()]
    return [words[0] for words in lines if words]


def read_series(target: Target) -> list[Path]:
    """The patch files of the target's queue, in order. Raises UserError unless the series names each of them once."""
    try:
        names = parse_series(target.series.read_text())
    except FileNotFoundError:
        raise UserError(f"the queue of {target.name} has no series file: {target.series}") from None
    there = [path.name for path in target.patches.glob("*.patch")]
    wrong = sorted({name for name in (*names, *there) if names.count(name) != 1 or name not in there})
    if wrong or not names:
        raise UserError(f"{target.series} must name each patch of {target.patches} once; wrong: {' '.join(wrong)}")
    return [target.patches / name for name in names]


def queue_hash(patches: list[Path]) -> str:
    """sha256 (hex) over the patches' names and contents, in order."""
    digest = hashlib.sha256()
    for patch in patches:
        content = patch.read_bytes()
        digest.update(f"{patch.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def tree_key(base: BaseTree, hashed: str) -> str:
    """The stamp of a tree that has the queue of this hash on this base."""
    return f"{base.commit}..{hashed}"


def apply_series(target: Target, base: BaseTree) -> Tree:
    """Make build/<target>/tree, or return it untouched when base and queue are the ones that it was made from.

    Where one of them has changed, the user's own work in the tree goes into a ref before the new queue is applied.
    Raises UserError when a patch does not apply.
    """
    patches = read_series(target)
    log = log_dir(target.name) / "tree.log"
    path = build_dir(target.name) / "tree"
    hashed = queue_hash(patches)
    key = tree_key(base, hashed)
    publish(path, lambda part: _clone(base, part, log), GIB // 2, "checking out the base", log)
    with locked(path):
        if not is_complete(path / ".git", key):
            _set_aside(path, log)
            with step(f"applying the queue of {target.name} ({len(patches)} patches)", log):
                _apply(base, patches, path, log)
                stamp(path / ".git", key)
    listed = git(path, "rev-list", "--reverse", f"{base.commit}..{MADE}", log=log).output.split()
    series = resolve(path, MADE, log) or ""
    return Tree(target, path, base.commit, series, tuple(listed), hashed, base.origin, base.taken)


def snapshot(tree: Tree) -> str:
    """A commit of the tree's files as they are now; `tree.series` when the user has changed none of them.

    The commit holds HEAD and all uncommitted and untracked files. The user's index, branches and files stay.
    """
    log = log_dir(tree.target.name) / "tree.log"
    commit = _snapshot(tree.path, log)
    same = resolve(tree.path, f"{commit}^{{tree}}", log) == resolve(tree.path, f"{tree.series}^{{tree}}", log)
    return tree.series if same else commit


def _snapshot(path: Path, log: Path) -> str:
    """HEAD, or a commit after it with everything that is in no commit yet."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as place:
        index = Path(place) / "index"
        if (path / ".git" / "index").exists():
            shutil.copy2(path / ".git" / "index", index)  # with its time, by which git knows the changed files
        env = {"GIT_INDEX_FILE": str(index)}
        git(path, "add", "-A", "--sparse", log=log, env=env, timeout=900)
        files = git(path, "write-tree", log=log, env=env).output.strip()
    head = resolve(path, "HEAD^{commit}", log)
    if head and resolve(path, f"{head}^{{tree}}", log) == files:
        return head
    parents = ("-p", head) if head else ()
    return git(path, "commit-tree", *parents, "-m", "uncommitted changes", files, log=log).output.strip()


def check_out_all(tree: Tree) -> Tree:
    """Check out all files of the tree (2 GiB for a kernel); returns the tree."""
    _check_out_all(tree.path, log_dir(tree.target.name) / "tree.log")
    return tree


def mark_made(path: Path, log: Path) -> None:
    """Record that all commits of HEAD are the queue's, and none the user's own work."""
    git(path, "update-ref", MADE, "HEAD", log=log)
    git(path, "tag", "-f", "series", "HEAD", log=log)


def keep(path: Path, commit: str, log: Path) -> str:
    """Give a commit of the user's a ref, so that git never removes it; returns the ref."""
    ref = f"{SET_ASIDE}/{commit[:12]}"
    git(path, "update-ref", ref, commit, log=log)
    return ref


def is_in(path: Path, commit: str, later: str, log: Path) -> bool:
    """Return True if a commit is in the history of a later one."""
    return git(path, "merge-base", "--is-ancestor", commit, later, log=log, check=False).returncode == 0


def _clone(base: BaseTree, part: Path, log: Path) -> None:
    """Hard links where the cache is on the same disk: no second copy, yet the cache may be deleted."""
    words = ("clone", "-q", "--template=", "--no-checkout", "--branch", "base-tree")
    git(part, *words, base.repo, part, log=log, timeout=900)
    git(part, "remote", "remove", "origin", log=log)
    git(part, "config", "gc.auto", "0", log=log)
    if base.target.is_kernel:
        git(part, "sparse-checkout", "set", "--no-cone", *CHECKED_OUT, log=log)
    git(part, "checkout", "-q", "-b", BRANCH, log=log)
    mark_made(part, log)


def _check_out_all(path: Path, log: Path) -> None:
    if git(path, "config", "core.sparseCheckout", log=log, check=False).output.strip() == "true":
        require_space(path, SOURCE_TREE, "all files of the tree")
        git(path, "sparse-checkout", "disable", log=log, timeout=900)


def _set_aside(path: Path, log: Path) -> None:
    """Keep the user's own work in refs, and end a rebase or am that is not finished."""
    known = [MADE]
    for tip in (_snapshot(path, log), resolve(path, f"refs/heads/{BRANCH}", log)):
        if tip and not any(is_in(path, tip, commit, log) for commit in known):
            ref = keep(path, tip, log)
            known.append(ref)
            say(f"set aside what {path} has and the queue has not: git -C {path} log -p base..{ref}")
    for command in ("rebase", "am"):
        git(path, command, "--quit", log=log, check=False)


def _apply(base: BaseTree, patches: list[Path], path: Path, log: Path) -> None:
    git(path, "fetch", "-q", "--no-tags", base.repo, "refs/tags/base", log=log)
    (path / ".git" / ".complete").unlink(missing_ok=True)
    git(path, "tag", "-f", "base", base.commit, log=log)
    git(path, "checkout", "-q", "-f", "-B", BRANCH, base.commit, log=log, timeout=900)
    git(path, "clean", "-q", "-fd", log=log)
    for patch in patches:
        try:
            # The committer's date is the author's: the same queue has the same commit ids on every machine.
            git(path, "am", "-q", "--committer-date-is-author-date", patch, log=log)
        except CommandError as error:
            git(path, "am", "--abort", log=log, check=False)
            _check_out_all(path, log)  # for the person who fixes the patch
            mark_made(path, log)
            raise UserError(
                f"{patch.name} does not apply to the base ({base.origin})\n"
                f"  {path} now has the patches before this one\n{error}"
            ) from error
    mark_made(path, log)
