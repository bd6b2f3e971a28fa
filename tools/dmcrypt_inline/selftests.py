"""The kselftest directory and the patch that adds it: the files are the original, the patch is made from them."""

from __future__ import annotations

import stat
from pathlib import Path

from .errors import UserError
from .gitrepo import blob_id, git
from .paths import REPO, log_dir
from .series import Tree, read_series

SELFTESTS = REPO / "selftests" / "dm-crypt"
IN_TREE = "tools/testing/selftests/dm-crypt"
# Two lines of context: the third after the entry in MAINTAINERS is another address in the tree of the posting.
FORMAT = ("--zero-commit", "--no-signature", "--no-numbered", "--abbrev=12", "--unified=2", "--stdout", "-1")


def files() -> dict[str, tuple[str, str]]:
    """What the directory holds: path in the kernel tree -> (git mode, git blob id)."""
    found = {}
    for path in sorted(SELFTESTS.iterdir()):
        mode = "100755" if path.stat().st_mode & stat.S_IXUSR else "100644"
        found[f"{IN_TREE}/{path.name}"] = (mode, blob_id(path))
    return found


def tests() -> set[str]:
    """The names of the files that are run, not sourced or read."""
    return {Path(path).name for path, (mode, _) in files().items() if mode == "100755"}


def differences(tree: Tree) -> list[str]:
    """Where directory and applied queue differ, one line a file; empty when they are equal."""
    listed = git(tree.path, "ls-tree", "-r", tree.series, f"{IN_TREE}/", log=log_dir(tree.target.name) / "tree.log")
    patched = {}
    for line in listed.output.splitlines():
        meta, path = line.split("\t", 1)
        mode, _, blob = meta.split()
        patched[path] = (mode, blob)
    wanted = files()
    problems = []
    for path in sorted(wanted.keys() | patched.keys()):
        if path not in patched:
            problems.append(f"{path} is not in the queue")
        elif path not in wanted:
            problems.append(f"{path} is in the queue, but not in {SELFTESTS}")
        elif wanted[path] != patched[path]:
            problems.append(f"{path} differs from {SELFTESTS / Path(path).name}")
    return problems


def refreshed(tree: Tree) -> list[str]:
    """Call `refresh` where there is a difference; what was done, line by line."""
    found = differences(tree)
    if not found:
        return [f"the queue of {tree.target.name} has the files of selftests/dm-crypt as they are"]
    return [f"{refresh(tree)} written:", *(f"  {line}" for line in found)]


def refresh(tree: Tree) -> Path:
    """Write the files of the directory into the patch that adds them, the last of the queue; returns its path.

    Its message, author and date stay. Raises UserError when the last patch adds no selftests.
    """
    log = log_dir(tree.target.name) / "selftests.log"
    patch = read_series(tree.target)[-1]
    commit = tree.commits[-1]
    touched = git(tree.path, "diff-tree", "-r", "--no-commit-id", "--name-only", commit, log=log).output.split()
    if not any(path.startswith(f"{IN_TREE}/") for path in touched):
        raise UserError(f"{patch} is the last patch of the queue, but does not add {IN_TREE}")
    index = {"GIT_INDEX_FILE": str(tree.path / ".git" / "selftests.index")}
    git(tree.path, "read-tree", commit, log=log, env=index)
    git(tree.path, "rm", "-r", "-q", "--cached", "--", IN_TREE, log=log, env=index)
    for path, (mode, blob) in files().items():
        git(tree.path, "hash-object", "-w", "--no-filters", SELFTESTS / Path(path).name, log=log)
        git(tree.path, "update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}", log=log, env=index)
    changed = git(tree.path, "write-tree", log=log, env=index).output.strip()
    said = git(tree.path, "log", "-1", "--format=%an%x00%ae%x00%aI%x00%B", commit, log=log).output
    name, address, date, message = said.split("\0", 3)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": date}
    made = git(
        tree.path,
        *("commit-tree", changed, "-p", f"{commit}^", "-F", "-"),
        log=log,
        env=author,
        stdin=message.rstrip("\n").encode() + b"\n",
    ).output.strip()
    patch.write_text(git(tree.path, "format-patch", *FORMAT, made, log=log).output)
    return patch
