"""Stage 'base tree': the target's tree before the queue, as a repository of our own."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import blob_id, git, resolve
from ..common.paths import SOURCE_TREE, log_dir, publish, use_entry
from ..common.progress import say, step
from ..common.run import run
from .archive import package_file, version_of
from .targets import TARGETS, Recipe, Target


@dataclass(frozen=True)
class BaseTree:
    """A bare git repository with one commit, tagged `base`. `origin` says where the files came from.

    `taken` is the user's repository and the commit's name there, where they came from one.
    """

    target: Target
    repo: Path
    commit: str
    origin: str
    taken: tuple[Path, str] | None = None


def prepare_base(target: Target, own: Path | None) -> BaseTree:
    """The base of `target`: from the user's own tree `own`, or the embedded default when that is None.

    The user's tree is only read. Raises UserError when a tree is not what the
    target needs, when the archive cannot be reached, or when the disk is full.
    """
    log = log_dir(target.name) / "base.log"
    if own is not None:
        return _from_user(target, own, log)
    recipe = target.recipe
    return _from_package(target, recipe.patch, recipe.blobs, (), log)


def stacked_base(target: Target, tree: Path, commit: str) -> BaseTree:
    """The base of a stacked queue: a commit of the tree that it is stacked on, with its files and no history."""
    log = log_dir(target.name) / "base.log"
    files = resolve(tree, f"{commit}^{{tree}}", log)
    if files is None:
        raise UserError(f"the tree of {target.below}: git cannot find the tree of {commit}")

    def make(part: Path) -> None:
        git(part, "clone", "-q", "--bare", "--template=", "--no-tags", tree, part, log=log)  # with hard links
        refs = git(part, "for-each-ref", "--format=delete %(refname)", log=log).output
        git(part, "update-ref", "--stdin", log=log, stdin=refs.encode())
        _init(part, log)
        _commit_tree(part, files, log)

    final = use_entry("bases", f"{target.name}-tree-{files[:16]}.git")
    return _made(target, final, make, f"the tree of {target.below} at {commit}", log)


def own_tree(target: Target, own: Mapping[str, Path], *, named: bool) -> Path | None:
    """Which of the user's trees `own`, by variable, is for `target`, if any.

    Targets may share a variable. Where the user did not name the target, a tree
    that another one of them takes, and it does not, leaves it its embedded base.
    """
    tree = own.get(target.variable)
    if tree is None or named or _fits(target, tree):
        return tree
    for other in TARGETS.values():
        if other.variable == target.variable and not other.below and _fits(other, tree):
            say(f"{target.variable}={tree} is for {other.name}: {target.name} has its embedded base")
            return None
    return tree  # for none: what is wrong with it is said where it is taken


def _fits(target: Target, own: Path) -> bool:
    try:
        if _commit_to_take(target, own, f"{target.variable}={own}", log_dir(target.name) / "base.log"):
            return True
        return all(_is(blob_id(own / path), blob) for path, blob in target.blobs.items())
    except (OSError, UserError):
        return False


def prepare_exact(target: Target, base: BaseTree) -> BaseTree:
    """The files of the target's tag that the queue changes: `base` itself where it has them, else only those files.

    Raises UserError as `prepare_base` does.
    """
    log = log_dir(target.name) / "base.log"
    exact = target.recipe.exact
    if exact is None or all(
        _is(resolve(base.repo, f"refs/tags/base:{path}", log), blob) for path, blob in target.blobs.items()
    ):
        return base
    return _from_package(target, exact, target.blobs, sorted(target.blobs), log)


def _from_package(
    target: Target, patch: Path | None, blobs: Mapping[str, str], files: Sequence[str], log: Path
) -> BaseTree:
    """The package's files (all of them when `files` is empty), taken to `blobs` by `patch`."""
    recipe = target.recipe
    version = recipe.version or version_of(package_file(target, log))
    changes = patch.read_bytes() if patch else b""
    # The recipe's code is not in the key: the blobs say whether it did its work.
    identity = f"{recipe.package} {version}\n".encode() + changes + " ".join(files).encode()
    final = use_entry("bases", f"{target.name}-{hashlib.sha256(identity).hexdigest()[:16]}.git")
    origin = f"{recipe.package} {version}" + (f" and {patch.name}" if patch else "")

    def make(part: Path) -> None:
        scratch = part / "scratch"
        source = _unpack(recipe, package_file(target, log), files, scratch, log)
        if patch:
            run(["git", "init", "-q", source], log=log, timeout=60)  # else git apply looks for a repository further up
            git(source, "apply", patch, log=log)
            shutil.rmtree(source / ".git")
        _commit_directory(source, target.products, part, log)
        shutil.rmtree(scratch)

    if not final.exists():
        package_file(target, log)
    return replace(_made(replace(target, blobs=blobs), final, make, origin, log), target=target)


def _made(target: Target, final: Path, make: Callable[[Path], None], origin: str, log: Path) -> BaseTree:
    """The base that `make` makes, unless the cache has it. Raises UserError unless it has the target's blobs."""

    def make_and_verify(part: Path) -> None:
        make(part)
        for path, blob in target.blobs.items():
            got = resolve(part, f"refs/tags/base:{path}", log)
            if not _is(got, blob):
                raise _mismatch(target, path, got, blob, origin)

    if not final.exists():
        with step(f"taking the base from {origin}", log):
            publish(final, make_and_verify, SOURCE_TREE, "the base tree")
    commit = resolve(final, "refs/tags/base^{commit}", log)
    if commit is None:
        raise UserError(f"{final} holds no base; delete it and run again")
    return BaseTree(target, final, commit, origin)


def _unpack(recipe: Recipe, package: Path, files: Sequence[str], scratch: Path, log: Path) -> Path:
    """Where below `scratch` the files of the package's tarball now lie."""
    source = scratch / "source"
    source.mkdir(parents=True)
    tarball = package
    if not recipe.source:
        run(["dpkg-deb", "-x", package, scratch / "deb"], log=log, timeout=600)
        tarball = scratch / "deb" / recipe.tarball
    # Below the tarball's one directory, whatever its name is.
    wanted = ["--wildcards", "--no-wildcards-match-slash", *(f"*/{path}" for path in files)] if files else []
    run(["tar", "-xf", tarball, "-C", source, "--strip-components=1", *wanted], log=log, timeout=900)
    return source


def _commit_directory(source: Path, products: Sequence[str], repo: Path, log: Path) -> None:
    """Make `repo` a bare repository that holds the files of `source`, `products` left out, as its base commit.

    The tree's own .gitignore does not decide (-f): Debian's names every file.
    """
    _init(repo, log)
    # Every file counts as big, so that git writes one pack at once instead of 70000 files.
    quick = ["-c", "core.bigFileThreshold=1", "-c", "core.compression=1", "-c", "core.fsync=none"]
    excluded = [f":(top,exclude){name}" for name in products]
    git(repo, *quick, f"--work-tree={source}", "add", "-A", "-f", "--", source, *excluded, log=log, timeout=1800)
    tree = git(repo, "write-tree", log=log).output.strip()
    (repo / "index").unlink()
    _commit_tree(repo, tree, log)


def _init(repo: Path, log: Path) -> None:
    run(["git", "init", "-q", "--bare", "--template=", repo], log=log, timeout=60)
    git(repo, "symbolic-ref", "HEAD", "refs/heads/base-tree", log=log)
    git(repo, "config", "gc.auto", "0", log=log)


def _commit_tree(repo: Path, tree: str, log: Path) -> None:
    commit = git(repo, "commit-tree", "-m", "base", tree, log=log).output.strip()
    git(repo, "update-ref", "refs/heads/base-tree", commit, log=log)
    git(repo, "tag", "base", commit, log=log)


def _is(got: str | None, blob: str) -> bool:
    return got is not None and got.startswith(blob)


def _mismatch(target: Target, path: str, got: str | None, wanted: str, origin: str) -> UserError:
    found = f"has git blob id {got[:12]}" if got else "is missing"
    return UserError(
        f"{origin} is not the base of {target.name}: {path} {found}\n"
        f"  wanted: {target.tag}, or a tree made to look like it, where it is {wanted}\n"
        f"  give {target.variable}= a git tree with the tag {target.tag} or a source tree with that file,\n"
        f"  or leave {target.variable}= out to use the embedded base"
    )


def _from_user(target: Target, own: Path, log: Path) -> BaseTree:
    origin = f"{target.variable}={own}"
    want = f"  wanted: a git tree with the tag {target.tag}, or a source tree of that version"
    if not own.exists():
        raise UserError(f"{origin} does not exist\n{want}")
    if not own.is_dir():
        raise UserError(f"{origin} is a file, not a directory\n{want}")
    if not any(own.iterdir()):
        raise UserError(f"{origin} is an empty directory\n{want}")
    name = _commit_to_take(target, own, origin, log)
    if name is not None:
        return _from_git(target, own, name, origin, log)
    return _from_directory(target, own, origin, log)


def _commit_to_take(target: Target, own: Path, origin: str, log: Path) -> str | None:
    """The tag, or HEAD when it holds the wanted files; None when the files themselves must do."""
    if not (own / ".git").exists() and not (own / "objects").is_dir():
        return None
    asked = run(["git", "-C", own, "rev-parse", "--git-dir"], log=log, timeout=60, check=False)
    if asked.returncode != 0:
        raise UserError(f"git cannot read {origin}:\n  {asked.transcript.strip()}")
    for name in (f"refs/tags/{target.tag}", "HEAD"):
        if all(_is(resolve(own, f"{name}:{path}", log), blob) for path, blob in target.blobs.items()):
            return name
    return None


def commit_taken(target: Target, own: Path, log: Path) -> tuple[str, bool] | None:
    """Which commit of the user's tree is the target's base, and whether it has the tag; None when none is."""
    name = _commit_to_take(target, own, f"{target.variable}={own}", log)
    commit = resolve(own, f"{name}^{{commit}}", log) if name else None
    return (commit, name != "HEAD") if commit else None


def _from_git(target: Target, own: Path, name: str, origin: str, log: Path) -> BaseTree:
    tree = resolve(own, f"{name}^{{tree}}", log)
    if tree is None:
        raise UserError(f"{origin}: git cannot find the tree of {name}")
    final = use_entry("bases", f"{target.name}-tree-{tree[:16]}.git")

    def make(part: Path) -> None:
        _init(part, log)
        # A shallow fetch: one commit's files, none of its history, nothing shared with the user's repository.
        run(
            ["git", "-C", part, "-c", "gc.auto=0", "fetch", "-q", "--no-tags", "--depth=1", f"file://{own}", name],
            log=log,
            timeout=1800,
        )
        _commit_tree(part, tree, log)
        (part / "shallow").unlink(missing_ok=True)

    return replace(_made(target, final, make, f"{origin} at {name}", log), taken=(own, name))


def _from_directory(target: Target, own: Path, origin: str, log: Path) -> BaseTree:
    for path, blob in target.blobs.items():
        got = blob_id(own / path) if (own / path).is_file() else None
        if not _is(got, blob):
            raise _mismatch(target, path, got, blob, origin)
    here = hashlib.sha256(str(own).encode()).hexdigest()[:8]
    final = use_entry("bases", f"{target.name}-dir-{here}-{_state(own)[:16]}.git")
    if not final.exists():  # the states that this directory went through are of no more use
        for old in final.parent.glob(f"{target.name}-dir-{here}-*.git"):
            shutil.rmtree(old)
    return _made(target, final, lambda part: _commit_directory(own, target.products, part, log), origin, log)


def _state(directory: Path) -> str:
    """A hash over names, sizes and times of all files below: changes when one of them does."""
    digest = hashlib.sha256()
    for above, below, files in os.walk(directory):
        below[:] = sorted(name for name in below if name != ".git")
        for name in sorted(files):
            info = Path(above, name).lstat()
            digest.update(f"{above}/{name} {info.st_size} {info.st_mtime_ns} {info.st_mode}\n".encode())
    return digest.hexdigest()
