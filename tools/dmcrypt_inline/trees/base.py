"""Stage 'base tree': the target's tree before the queue, as a repository of its own."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git, resolve
from ..common.paths import SOURCE_TREE, log_dir, publish, use_entry
from ..common.run import run
from .archive import package_file, version_of
from .targets import Target


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
    """The base of `target`: from the user's git tree `own`, which is only read, or from a Debian package.

    Raises UserError when the tree or the package has other files than the target names.
    """
    log = log_dir(target.name) / "base.log"
    if own is not None:
        return _from_user(target, own, log)
    return _from_package(target, package_file(target, log), log)


def stacked_base(target: Target, tree: Path, commit: str) -> BaseTree:
    """The base of a stacked queue: a commit of the tree that it is stacked on, with its files and no history."""
    log = log_dir(target.name) / "base.log"
    files = git(tree, "rev-parse", f"{commit}^{{tree}}", log=log).output.strip()

    def make(part: Path) -> None:
        git(part, "clone", "-q", "--bare", "--template=", "--no-tags", tree, part, log=log)  # with hard links
        refs = git(part, "for-each-ref", "--format=delete %(refname)", log=log).output
        git(part, "update-ref", "--stdin", log=log, stdin=refs.encode())
        _init(part, log)
        _commit_tree(part, files, log)

    final = use_entry("bases", f"{target.name}-tree-{files[:16]}.git")
    return _made(target, final, make, f"the tree of {target.below} at {commit}", log)


def has_files(target: Target, repo: Path, commit: str, log: Path) -> bool:
    """Return True if a commit has the files of the target's tag, as far as the target names them."""
    return all((resolve(repo, f"{commit}:{path}", log) or "").startswith(blob) for path, blob in target.blobs.items())


def commit_to_take(target: Target, own: Path, log: Path) -> str | None:
    """The name of the commit in the user's git tree that is the target's base: its tag, or HEAD with the same files."""
    names = (f"refs/tags/{target.tag}", "HEAD")
    return next((name for name in names if has_files(target, own, name, log)), None)


def _from_user(target: Target, own: Path, log: Path) -> BaseTree:
    origin = f"{target.variable}={own}"
    name = commit_to_take(target, own, log)
    if not name:
        raise UserError(
            f"{origin} is not the base of {target.name}\n"
            f"  wanted: a git tree with the tag {target.tag}, or with these files in its last commit:\n"
            + "".join(f"    {path} with the git blob id {blob}\n" for path, blob in target.blobs.items())
            + f"  or leave {target.variable}= out to use the embedded base"
        )
    tree = git(own, "rev-parse", f"{name}^{{tree}}", log=log).output.strip()
    final = use_entry("bases", f"{target.name}-tree-{tree[:16]}.git")

    def make(part: Path) -> None:
        _init(part, log)
        # A shallow fetch: one commit's files, none of its history, nothing shared with the user's repository.
        git(part, "fetch", "-q", "--no-tags", "--depth=1", f"file://{own.resolve()}", name, log=log, timeout=1800)
        _commit_tree(part, tree, log)
        (part / "shallow").unlink(missing_ok=True)

    return replace(_made(target, final, make, f"{origin} at {name}", log), taken=(own, name))


def _from_package(target: Target, package: Path, log: Path) -> BaseTree:
    """The base from the package's files and the target's base.patch."""
    version, patch = version_of(package), target.base_patch
    # The code below is not in the key: the blobs say whether it did its work.
    identity = f"{target.package.name} {version}\n".encode() + (patch.read_bytes() if patch else b"")
    final = use_entry("bases", f"{target.name}-{hashlib.sha256(identity).hexdigest()[:16]}.git")
    origin = f"{target.package.name} {version}" + (f" and {patch.name}" if patch else "")

    def make(part: Path) -> None:
        scratch = part / "scratch"
        source = _unpack(target, package, scratch, log)
        if patch:
            run(["git", "init", "-q", source], log=log, timeout=60)  # else git apply looks for a repository further up
            git(source, "apply", patch, log=log)
            shutil.rmtree(source / ".git")
        _commit_directory(target, source, part, log)
        shutil.rmtree(scratch)

    return replace(
        _made(replace(target, blobs=target.package_blobs or target.blobs), final, make, origin, log), target=target
    )


def _made(target: Target, final: Path, make: Callable[[Path], None], origin: str, log: Path) -> BaseTree:
    """The base that `make` makes, unless the cache has it. Raises UserError unless it has the target's blobs."""

    def make_and_verify(part: Path) -> None:
        make(part)
        for path, blob in target.blobs.items():
            got = resolve(part, f"refs/tags/base:{path}", log) or "none"
            if not got.startswith(blob):
                raise UserError(
                    f"{origin} is not the base of {target.name}: {path} has the git blob id {got}, wanted {blob}\n"
                    f"  give {target.variable}= a git tree with the tag {target.tag}"
                )

    publish(final, make_and_verify, SOURCE_TREE, f"taking the base from {origin}", log)
    commit = git(final, "rev-parse", "refs/tags/base^{commit}", log=log).output.strip()
    return BaseTree(target, final, commit, origin)


def _unpack(target: Target, package: Path, scratch: Path, log: Path) -> Path:
    """Unpack the package's tarball below `scratch`; returns the directory of its files."""
    source = scratch / "source"
    source.mkdir(parents=True)
    tarball = package
    if target.is_kernel:
        run(["dpkg-deb", "-x", package, scratch / "deb"], log=log, timeout=600)
        tarball = scratch / "deb" / "usr" / "src" / f"{target.package.name}.tar.xz"
    run(["tar", "-xf", tarball, "-C", source, "--strip-components=1"], log=log, timeout=900)
    return source


def _commit_directory(target: Target, source: Path, repo: Path, log: Path) -> None:
    """Make `repo` a bare repository with the files of `source` as its base commit.

    A release has generated files, which its .gitignore names. A kernel has none, and Debian's .gitignore names all.
    """
    _init(repo, log)
    # Every file counts as big, so that git writes one pack at once instead of 70000 files.
    quick = ["-c", "core.bigFileThreshold=1", "-c", "core.compression=1", "-c", "core.fsync=none"]
    tracked = [source / name for name in target.tracked if (source / name).exists()]
    for option, paths in (("-A", [source]), ("-f", tracked)):
        git(repo, *quick, f"--work-tree={source}", "add", option, *paths, log=log, timeout=1800)
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
