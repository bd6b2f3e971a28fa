"""The kselftest directory and the patch that adds it: the files are the original, the patch is made from them."""

import tempfile
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git, resolve
from ..common.paths import REPO, log_dir
from .series import Tree

SELFTESTS = REPO / "selftests" / "dm-crypt"
IN_TREE = "tools/testing/selftests/dm-crypt"
# Two lines of context: the third after the entry in MAINTAINERS is another address in the tree of the posting.
CONTEXT = ("--unified=2",)
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's id of a tree without files
ALL_FILES = ("-c", "core.sparseCheckout=false")


def store_directory(repo: Path, log: Path) -> str:
    """Write the files of the directory into the repository; returns the id of their git tree."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        index = {"GIT_INDEX_FILE": f"{name}/index"}
        git(repo, *ALL_FILES, f"--work-tree={SELFTESTS}", "add", "-A", "-f", SELFTESTS, log=log, env=index)
        return git(repo, "write-tree", log=log, env=index).output.strip()


def directory_in(repo: Path, commit: str, log: Path) -> str:
    """The id of the directory's git tree in a commit; the one of an empty tree when there is no such directory."""
    return resolve(repo, f"{commit}:{IN_TREE}", log) or EMPTY


def adds_them(repo: Path, commit: str, log: Path) -> bool:
    """Return True if a commit changes the directory."""
    return directory_in(repo, commit, log) != directory_in(repo, f"{commit}^", log)


def differences(tree: Tree) -> list[str]:
    """The files that differ between the directory and the applied queue, one line each."""
    log = log_dir(tree.target.name) / "tree.log"
    patched, wanted = directory_in(tree.path, tree.series, log), store_directory(tree.path, log)
    output = git(tree.path, "diff", "--no-renames", "--name-only", patched, wanted, log=log).output
    return [f"{IN_TREE}/{name} differs from {SELFTESTS / name}" for name in output.splitlines()]


def with_directory(repo: Path, commit: str, log: Path) -> str:
    """A commit that differs from this one only by the files of the directory; its message, author and date stay.

    Raises UserError when it differs, but does not change the directory: then another commit adds the selftests.
    """
    wanted = store_directory(repo, log)
    if wanted == directory_in(repo, commit, log):
        return commit
    if not adds_them(repo, commit, log):
        raise UserError(f"the last commit of {repo} does not add {IN_TREE}")
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        index = {"GIT_INDEX_FILE": f"{name}/index"}
        git(repo, "read-tree", commit, log=log, env=index)
        git(repo, *ALL_FILES, "rm", "-r", "-q", "--cached", "--", IN_TREE, log=log, env=index)
        git(repo, "read-tree", f"--prefix={IN_TREE}/", wanted, log=log, env=index)
        changed = git(repo, "write-tree", log=log, env=index).output.strip()
    _, _, rest = git(repo, "cat-file", "commit", commit, log=log).output.partition("\n")  # the first line is the tree
    text = f"tree {changed}\n{rest}".encode()
    return git(repo, "hash-object", "-t", "commit", "-w", "--stdin", log=log, stdin=text).output.strip()
