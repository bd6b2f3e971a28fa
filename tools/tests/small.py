"""A target of a few lines, in place of a kernel."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmcrypt_inline.checks.checklist import Check, Failed, Queue
from dmcrypt_inline.common.gitrepo import IDENTITY, ISOLATED
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import apply_series, check_out_all
from dmcrypt_inline.trees.targets import Package, Target

SOURCE = "drivers/md/dm-crypt.c"
BEFORE = "int version = 21;\n"
AFTER = "int version = 22;\n"
PATCH = "0001-dm-crypt-bump-the-version.patch"  # the one of make_target
MISSPELLED = "rec" + "ieve"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", **IDENTITY, **ISOLATED}  # git has the tests' own identity there


def git(place: Path, *arguments: str) -> str:
    """Run git in `place`, as the tests' own identity."""
    argv = ["git", "-C", str(place), *arguments]
    return subprocess.run(argv, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout


def shell(place: Path, script: str) -> None:
    """Run a script in `place`, in which git has the tests' own identity."""
    subprocess.run(["sh", "-e", "-c", script], cwd=place, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def kernel_tree(place: Path, text: str = BEFORE) -> Path:
    """A directory that looks like a kernel's, with a product of a build that .gitignore names."""
    products = {".gitignore": "*.o\n", "drivers/md/dm-crypt.o": "built\n"}
    return write_files(place, {SOURCE: text, "Makefile": "all:\n", **products})


def write_files(place: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return place


def git_tree(place: Path, tag: str | None, text: str = BEFORE) -> Path:
    """`kernel_tree` as a git repository, committed and perhaps tagged."""
    return repository(kernel_tree(place, text), tag)


def repository(place: Path, tag: str | None) -> Path:
    """Commit all files in `place` to a new git repository, and perhaps tag the commit."""
    git(place, "init", "-q")
    git(place, "add", "-A")
    git(place, "commit", "-q", "--allow-empty", "-m", "all")
    if tag:
        git(place, "tag", tag)
    return place


def make_target(
    place: Path, files: Mapping[str, str] | None = None, changed: Mapping[str, str] | None = None, **fields: Any
) -> Target:
    """A target whose queue lies in `place` and changes files (default: BEFORE to AFTER) in one patch."""
    work = repository(write_files(place / "work", files) if files else kernel_tree(place / "work"), "v0.1")
    changed = changed or {SOURCE: AFTER}
    blobs = {path: git(work, "hash-object", path)[:12] for path in changed}
    write_files(work, changed)
    git(work, "commit", "-q", "-a", "-m", "dm crypt: bump the version\n\nBecause.")
    (place / "patches").mkdir()
    git(work, "format-patch", "-q", "-1", "--abbrev=12", "--no-signature", "-o", str(place / "patches"))
    (place / "series").write_text(f"{PATCH}\n")
    package = Package("small", "small-security", "0.1-1")
    made = Target("small", "a test", "v0.1", package, blobs, directory=place, fragments={"fast": ()})
    return replace(made, **fields)


def make_queue(place: Path) -> Queue:
    """The queue of `make_target`, applied to a `git_tree`."""
    target = make_target(place)
    return applied(target, place)


def findings(check: Callable[[], object]) -> str:
    try:
        check()
    except Failed as failed:
        return str(failed)
    return ""


def findings_of(name: str, checks: Sequence[Check]) -> str:
    [found] = [each for each in checks if each.name == name]
    return findings(found.call)


def applied(target: Target, place: Path) -> Queue:
    tree = check_out_all(apply_series(target, prepare_base(target, git_tree(place / "linux", None))))
    return Queue(target, lambda: tree)


def committed(queue: Queue, path: str, text: str) -> Queue:
    """The queue with one commit more, in the place of its patch's, which gives the file `path` this text."""
    tree = queue.applied()
    (tree.path / path).parent.mkdir(parents=True, exist_ok=True)
    (tree.path / path).write_text(text)
    git(tree.path, "add", "-A")
    git(tree.path, "commit", "-q", "-m", "more")
    head = git(tree.path, "rev-parse", "HEAD").strip()
    made = replace(tree, series=head, commits=(head,))
    return replace(queue, apply=lambda: made)
