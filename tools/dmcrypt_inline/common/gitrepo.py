"""Git, without surprises from the user's own settings, and with ids that can be reproduced."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from .paths import REPO
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
    """Run git in a repository of ours. `timeout` in seconds; raises CommandError as `run` does."""
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


def check_out(repo: Path, commit: str, into: Path, log: Path) -> None:
    """Write the files of `commit` into the directory `into`. The repository is only read."""
    index = {"GIT_INDEX_FILE": str(into / ".index")}
    git(repo, "read-tree", commit, log=log, env=index)
    git(repo, "checkout-index", "-q", "-a", "-f", f"--prefix={into}/", log=log, env=index, timeout=900)
    (into / ".index").unlink()


def blob_id(path: Path) -> str:
    """The git blob id of a file's content (40 hex digits), as `git hash-object` gives it."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def known_authors(log: Path) -> list[str]:
    """Who may sign as author: the repository's own git identities, as 'Name <address>'.

    They come from its history: in a fresh clone the configured identity is the
    reader's. Before the first commit, and outside a repository, the configured one counts.
    """
    asked = git(REPO, "log", "--format=%an <%ae>", log=log, check=False)
    if asked.returncode == 0:
        return sorted(set(asked.output.splitlines()))
    values = []
    for name in ("user.name", "user.email"):
        values.append(run(["git", "-C", REPO, "config", name], log=log, timeout=60, check=False).output.strip())
    return [f"{values[0]} <{values[1]}>"] if all(values) else []
