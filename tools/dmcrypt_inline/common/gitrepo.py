"""Git without the user's settings, and with commit ids that are the same everywhere."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .run import Completed, run

# Fixed names and dates: the same content gives the same commit ids everywhere.
IDENTITY = {
    "GIT_AUTHOR_NAME": "dmcrypt-inline",
    "GIT_AUTHOR_EMAIL": "dmcrypt-inline@localhost",
    "GIT_COMMITTER_NAME": "dmcrypt-inline",
    "GIT_COMMITTER_EMAIL": "dmcrypt-inline@localhost",
    "GIT_AUTHOR_DATE": "2020-06-22T00:00:00+0000",
    "GIT_COMMITTER_DATE": "2020-06-22T00:00:00+0000",
}
# The user's hooks, signing, line ends and so on must not change what we make.
ISOLATED = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def git(
    repo: Path,
    *args: str | Path,
    log: Path,
    timeout: float = 600,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
) -> Completed:
    """Run git in a repository of this project. `timeout` in seconds; raises CommandError as `run` does."""
    return run(
        ["git", "-c", "gc.auto=0", "-c", "safe.directory=*", "-C", repo, *args],
        log=log,
        timeout=timeout,
        env={**IDENTITY, **ISOLATED, **(env or {})},
        stdin=stdin,
        check=check,
    )


def resolve(repo: Path, name: str, log: Path) -> str | None:
    """The object id that `name` stands for in `repo`, or None."""
    found = git(repo, "rev-parse", "--verify", "--quiet", name, log=log, check=False)
    return found.output.strip() if found.returncode == 0 else None


def write_tree(
    repo: Path,
    listed: Iterable[str],
    log: Path,
    *,
    added: Mapping[str, str] | None = None,
    patches: Sequence[Path] = (),
    how: Sequence[str] = (),
) -> str:
    """Write a git tree into `repo` and return its id.

    It has the files `listed` (lines of git ls-tree) and the texts `added` (by path), then changed by the patches.
    `how` are options of git apply.
    """
    lines = list(listed)
    for path, text in (added or {}).items():
        blob = git(repo, "hash-object", "-w", "--stdin", log=log, stdin=text.encode()).output.strip()
        lines.append(f"100644 blob {blob}\t{path}")
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as place:
        index = {"GIT_INDEX_FILE": f"{place}/index"}
        git(repo, "update-index", "--index-info", log=log, env=index, stdin="\n".join([*lines, ""]).encode())
        for patch in patches:
            git(repo, "apply", "--cached", *how, patch, log=log, env=index)
        return git(repo, "write-tree", log=log, env=index).output.strip()


def update_files(repo: Path, tree: str, directory: Path, log: Path) -> None:
    """Make the files in `directory` those of a git tree: only files that differ are written, and get a new time.

    An index in the directory lists the files that an earlier call put there; all others stay.
    """
    directory.mkdir(parents=True, exist_ok=True)
    where = {"GIT_INDEX_FILE": str(directory / ".index"), "GIT_WORK_TREE": str(directory)}
    git(repo, "-c", "core.sparseCheckout=false", "read-tree", "--reset", "-u", tree, log=log, env=where, timeout=900)
