"""The kselftest directory and the patch that adds it: the files are the original, the patch is made from them."""

from __future__ import annotations

import stat
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import blob_id, git
from ..common.paths import REPO, log_dir
from .series import FORMAT, Tree, read_series

SELFTESTS = REPO / "selftests" / "dm-crypt"
IN_TREE = "tools/testing/selftests/dm-crypt"
# Two lines of context: the third after the entry in MAINTAINERS is another address in the tree of the posting.
CONTEXT = ("--unified=2",)


def files() -> dict[str, tuple[str, str]]:
    """The files of the directory: path in the kernel tree -> (git mode, git blob id)."""
    found = {}
    for path in sorted(SELFTESTS.iterdir()):
        mode = "100755" if path.stat().st_mode & stat.S_IXUSR else "100644"
        found[f"{IN_TREE}/{path.name}"] = (mode, blob_id(path))
    return found


def listed(repo: Path, commit: str, log: Path) -> dict[str, tuple[str, str]]:
    """The files of the directory in a commit, like `files`."""
    found = {}
    for line in git(repo, "ls-tree", "-r", commit, f"{IN_TREE}/", log=log).output.splitlines():
        meta, path = line.split("\t", 1)
        mode, _, blob = meta.split()
        found[path] = (mode, blob)
    return found


def adds_them(repo: Path, commit: str, log: Path) -> bool:
    """Return True if a commit changes the directory."""
    touched = git(repo, "diff-tree", "-r", "--no-commit-id", "--name-only", commit, log=log).output.split()
    return any(path.startswith(f"{IN_TREE}/") for path in touched)


def take(repo: Path, commit: str, log: Path) -> list[str]:
    """Make the directory what it is in a commit; what was done, line by line."""
    wanted, done = listed(repo, commit, log), []
    for path in sorted(files().keys() - wanted.keys()):
        (SELFTESTS / Path(path).name).unlink()
        done.append(f"removed: {SELFTESTS / Path(path).name}")
    for path, (mode, blob) in wanted.items():
        if files().get(path) != (mode, blob):
            place = SELFTESTS / Path(path).name
            place.write_text(git(repo, "cat-file", "blob", blob, log=log).output)
            place.chmod(0o755 if mode == "100755" else 0o644)
            done.append(f"written: {place}")
    return done


def differences(tree: Tree) -> list[str]:
    """Where directory and applied queue differ, one line a file; empty when they are equal."""
    patched = listed(tree.path, tree.series, log_dir(tree.target.name) / "tree.log")
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
    if not adds_them(tree.path, commit, log):
        raise UserError(f"{patch} is the last patch of the queue, but does not add {IN_TREE}")
    index = {"GIT_INDEX_FILE": str(tree.path / ".git" / "selftests.index")}
    git(tree.path, "read-tree", commit, log=log, env=index)
    git(tree.path, "-c", "core.sparseCheckout=false", "rm", "-r", "-q", "--cached", "--", IN_TREE, log=log, env=index)
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
    text = git(tree.path, "format-patch", *FORMAT, *CONTEXT, "--stdout", "-1", made, log=log).output
    patch.write_text(text)
    return patch
