"""Stage 'base tree': the target's tree before the queue, as a repository of our own."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .archive import source_package
from .errors import UserError
from .gitrepo import blob_id, git, resolve
from .paths import SOURCE_TREE, cache_dir, log_dir, publish
from .progress import step
from .run import run
from .targets import Target

# What a build inside the tree leaves and what would disturb one outside it (O=), or is merely big. Git pathspecs.
BUILD_PRODUCTS = (
    *("*.o", "*.a", "*.ko", "*.cmd", "*.mod", "*.mod.c", "modules.order", "Module.symvers"),
    *(".config", ".config.old", "include/config", "include/generated", "arch/x86/include/generated"),
    *("vmlinux", "System.map", "arch/x86/boot/bzImage"),
)


@dataclass(frozen=True)
class BaseTree:
    """A bare git repository with one commit, tagged `base`. `origin` says where the files came from."""

    target: Target
    repo: Path
    commit: str
    origin: str


def prepare_base(target: Target, linux: Path | None) -> BaseTree:
    """The base of `target`: from the user's own tree `linux`, or the embedded default when that is None.

    The user's tree is only read. Raises UserError when a tree is not what the
    target needs, when the archive cannot be reached, or when the disk is full.
    """
    log = log_dir(target.name) / "base.log"
    if linux is not None:
        return _from_user(target, linux, log)
    recipe = target.recipe
    # The recipe's code is not in the key: the blobs verified below say whether it did its work.
    key = hashlib.sha256(f"{recipe.package} {recipe.version}\n".encode() + recipe.patch.read_bytes()).hexdigest()
    final = cache_dir() / "bases" / f"{target.name}-{key[:16]}.git"
    if not final.exists():
        deb = source_package(recipe, log)
        with step(f"unpacking {recipe.package} {recipe.version}", log):
            publish(final, lambda part: _unpack(target, deb, part, log), SOURCE_TREE, "the base tree")
    return _base(target, final, f"{recipe.package} {recipe.version} and {recipe.patch.name}", log)


def _base(target: Target, repo: Path, origin: str, log: Path) -> BaseTree:
    commit = resolve(repo, "base^{commit}", log)
    if commit is None:
        raise UserError(f"{repo} holds no base; delete it and run again")
    return BaseTree(target, repo, commit, origin)


def _unpack(target: Target, deb: Path, part: Path, log: Path) -> None:
    recipe = target.recipe
    scratch = part / "scratch"
    source = scratch / "source"
    source.mkdir(parents=True)
    run(["dpkg-deb", "-x", deb, scratch / "deb"], log=log, timeout=600)
    tarball = scratch / "deb" / recipe.tarball
    run(["tar", "-xf", tarball, "-C", source, "--strip-components=1"], log=log, timeout=900)
    run(["git", "init", "-q", source], log=log, timeout=60)  # else git apply looks for a repository further up
    git(source, "apply", recipe.patch, log=log)
    shutil.rmtree(source / ".git")
    _commit_directory(source, part, log)
    shutil.rmtree(scratch)
    check_blobs(target, target.blobs, part, log, f"{recipe.package} with {recipe.patch.name}")


def _commit_directory(source: Path, repo: Path, log: Path) -> None:
    """Make `repo` a bare repository that holds the files of `source`, build products left out, as its base commit.

    The tree's own .gitignore does not decide (-f): Debian's names every file.
    """
    _init(repo, log)
    # Every file counts as big, so that git writes one pack at once instead of 70000 files.
    quick = ["-c", "core.bigFileThreshold=1", "-c", "core.compression=1", "-c", "core.fsync=none"]
    products = [f":(top,exclude){name}" for name in BUILD_PRODUCTS]
    git(repo, *quick, f"--work-tree={source}", "add", "-A", "-f", "--", source, *products, log=log, timeout=1800)
    tree = git(repo, "write-tree", log=log).output.strip()
    (repo / "index").unlink()
    _commit_tree(repo, tree, log)


def _init(repo: Path, log: Path) -> None:
    run(["git", "init", "-q", "--bare", "--template=", "-b", "base-tree", repo], log=log, timeout=60)
    git(repo, "config", "gc.auto", "0", log=log)


def _commit_tree(repo: Path, tree: str, log: Path) -> None:
    commit = git(repo, "commit-tree", "-m", "base", tree, log=log).output.strip()
    git(repo, "update-ref", "refs/heads/base-tree", commit, log=log)
    git(repo, "tag", "base", commit, log=log)


def check_blobs(target: Target, wanted: Mapping[str, str], repo: Path, log: Path, origin: str) -> None:
    """Raise UserError unless every path of `wanted` has the blob id that the target names."""
    for path, blob in wanted.items():
        got = resolve(repo, f"base:{path}", log)
        if got is None or not got.startswith(blob):
            raise _mismatch(target, path, got, origin)


def _mismatch(target: Target, path: str, got: str | None, origin: str) -> UserError:
    found = f"has git blob id {got[:12]}" if got else "is missing"
    return UserError(
        f"{origin} is not the base of {target.name}: {path} {found}\n"
        f"  wanted: {target.tag}, where it is {target.blobs[path]}\n"
        f"  give LINUX= a git tree with the tag {target.tag} or a source tree with that file,\n"
        "  or leave LINUX= out to use the embedded base"
    )


def _from_user(target: Target, linux: Path, log: Path) -> BaseTree:
    origin = f"LINUX={linux}"
    linux = linux.expanduser().absolute()
    want = f"  wanted: a git tree with the tag {target.tag}, or a kernel source tree of that version"
    if not linux.exists():
        raise UserError(f"{origin} does not exist\n{want}")
    if not linux.is_dir():
        raise UserError(f"{origin} is a file, not a directory\n{want}")
    if not any(linux.iterdir()):
        raise UserError(f"{origin} is an empty directory\n{want}")
    name = _commit_to_take(target, linux, origin, log)
    if name is not None:
        return _from_git(target, linux, name, origin, log)
    return _from_directory(target, linux, origin, log)


def _ask(linux: Path, *args: str, log: Path) -> str | None:
    """Ask git about the user's tree, with the user's own settings; None when it says no."""
    asked = run(["git", "-C", linux, *args], log=log, timeout=60, check=False)
    return asked.output.strip() if asked.returncode == 0 else None


def _commit_to_take(target: Target, linux: Path, origin: str, log: Path) -> str | None:
    """The tag, or HEAD when it holds the wanted file; None when the files themselves must do."""
    if not (linux / ".git").exists() and not (linux / "objects").is_dir():
        return None
    asked = run(["git", "-C", linux, "rev-parse", "--git-dir"], log=log, timeout=60, check=False)
    if asked.returncode != 0:
        raise UserError(f"git cannot read {origin}:\n  {asked.output.strip()}")
    for name in (f"refs/tags/{target.tag}", "HEAD"):
        blob = _ask(linux, "rev-parse", "--verify", "--quiet", f"{name}:{target.source}", log=log)
        if blob is not None and blob.startswith(target.blobs[target.source]):
            return name
    return None


def _from_git(target: Target, linux: Path, name: str, origin: str, log: Path) -> BaseTree:
    tree = _ask(linux, "rev-parse", "--verify", f"{name}^{{tree}}", log=log)
    if tree is None:
        raise UserError(f"{origin}: git cannot find the tree of {name}")
    final = cache_dir() / "bases" / f"{target.name}-tree-{tree[:16]}.git"

    def make(part: Path) -> None:
        _init(part, log)
        # A shallow fetch: one commit's files, none of its history, nothing shared with the user's repository.
        run(
            ["git", "-C", part, "-c", "gc.auto=0", "fetch", "-q", "--no-tags", "--depth=1", f"file://{linux}", name],
            log=log,
            timeout=1800,
        )
        _commit_tree(part, tree, log)
        (part / "shallow").unlink(missing_ok=True)

    return _publish(target, final, make, f"{origin} at {name}", log)


def _from_directory(target: Target, linux: Path, origin: str, log: Path) -> BaseTree:
    file = linux / target.source
    got = blob_id(file) if file.is_file() else None
    if got is None or not got.startswith(target.blobs[target.source]):
        raise _mismatch(target, target.source, got, origin)
    here = hashlib.sha256(str(linux).encode()).hexdigest()[:8]
    final = cache_dir() / "bases" / f"{target.name}-dir-{here}-{_state(linux)[:16]}.git"
    if not final.exists():  # the states that this directory went through are of no more use
        for old in final.parent.glob(f"{target.name}-dir-{here}-*.git"):
            shutil.rmtree(old)
    return _publish(target, final, lambda part: _commit_directory(linux, part, log), origin, log)


def _state(directory: Path) -> str:
    """A hash over names, sizes and times of all files below: changes when one of them does."""
    digest = hashlib.sha256()
    for above, below, files in os.walk(directory):
        below[:] = sorted(name for name in below if name != ".git")
        for name in sorted(files):
            info = Path(above, name).lstat()
            digest.update(f"{above}/{name} {info.st_size} {info.st_mtime_ns} {info.st_mode}\n".encode())
    return digest.hexdigest()


def _publish(target: Target, final: Path, make: Callable[[Path], None], origin: str, log: Path) -> BaseTree:
    def make_and_check(part: Path) -> None:
        make(part)
        check_blobs(target, {target.source: target.blobs[target.source]}, part, log, origin)

    if not final.exists():
        with step(f"taking the base from {origin}", log):
            publish(final, make_and_check, SOURCE_TREE, "the base tree")
    return _base(target, final, origin, log)
