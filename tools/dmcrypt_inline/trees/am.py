"""Apply a queue to the user's own repository, on a new branch. Its work tree, index and branches stay as they are."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import log_dir
from ..common.run import Completed, run
from .series import read_series
from .targets import TARGETS, Target

MAKEFILE = re.compile(r"^(VERSION|PATCHLEVEL) *= *(\d+)", re.M)
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


def apply_queue(variable: str, own: Path, named: Target | None) -> list[str]:
    """Commit a queue on a new branch of the repository `own`; returns the report, line by line.

    `variable` is that of a target. Without a `named` target this tries the targets that suit the tree, the nearest
    first, and takes the first whose patches all apply. Raises UserError, and makes no branch, when none does.
    """
    if named and named.variable != variable:
        raise UserError(f"TARGET={named.name} takes {named.variable}=, but you gave {variable}={own}")
    head = _git(own, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.returncode != 0:
        raise UserError(
            f"{variable}={own} is no git repository with a commit\n"
            "  without git, apply the queue with quilt or patch: see docs/own-tree.md"
        )
    candidates = [named] if named else candidates_for(variable, own)
    problems = []
    for target in candidates:
        patches = read_series(target)
        with _work_tree(own) as place:
            done = _git(place, *NO_HOOKS, "am", "-3", "--no-gpg-sign", *patches)
            made = _git(place, "rev-list", f"{head.output.strip()}..HEAD").output.split()
            if done.returncode == 0 and made:
                skipped = f"  {len(made)} of {len(patches)} patches; the tree has the others already"
                return [*_branch(own, target, made[0]), *([skipped] if len(made) < len(patches) else [])]
        why = done.transcript.splitlines() if done.returncode else ["the tree has all of its patches already"]
        errors = [line for line in why if line.startswith(("error: ", "Patch failed", "CONFLICT"))]
        problems += [f"  {target.name}:", *(f"    {line}" for line in errors or why)]
    raise UserError(
        f"no queue applies to {variable}={own}, and nothing has changed there\n"
        + "\n".join(problems)
        + f"\n  to settle the conflicts yourself, on a branch of your own:"
        f"\n    git -C {own} am -3 {candidates[0].patches}/*.patch"
    )


def candidates_for(variable: str, own: Path) -> list[Target]:
    """The targets whose queue may suit the tree, the nearest first.

    These are the oldest that is no older than the tree, then older ones (they also have patches that the tree may have
    got since), then newer ones. A tree without a kernel's version counts as newer than all.
    """
    targets = [target for target in TARGETS.values() if target.variable == variable and not target.below]
    words = dict(MAKEFILE.findall(_git(own, "show", "HEAD:Makefile").output))
    version = tuple(int(words.get(key, 1000)) for key in ("VERSION", "PATCHLEVEL"))
    targets.sort(key=lambda target: _number(target.tag))
    older = [target for target in targets if _number(target.tag) < version]
    newer = [target for target in targets if _number(target.tag) >= version]
    return [*newer[:1], *reversed(older), *newer[1:]]


def _number(tag: str) -> tuple[int, ...]:
    """The first two numbers of a tag: (6, 12)."""
    return tuple(int(number) for number in re.findall(r"\d+", tag)[:2])


def _git(place: Path, *words: str | Path) -> Completed:
    """Run git with the user's own settings: the user is the committer. The caller looks at its exit status."""
    return run(["git", "-C", place, *words], log=log_dir("am") / "am.log", timeout=600, check=False)


@contextmanager
def _work_tree(own: Path) -> Iterator[Path]:
    """A work tree of the repository on its last commit, in no branch; git am checks out the files that it needs."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        place = Path(name) / "tree"
        added = _git(own, "worktree", "add", "--no-checkout", "--detach", place, "HEAD")
        if added.returncode != 0:
            raise UserError(f"git worktree add in {own} failed:\n{added.transcript}")
        try:
            _git(place, "read-tree", "HEAD")
            yield place
        finally:
            _git(own, "worktree", "remove", "--force", place)


def _branch(own: Path, target: Target, tip: str) -> list[str]:
    """Make a branch with a free name at `tip`; returns the report."""
    name, number = f"dmcrypt-inline-{target.name}", 1
    while _git(own, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}").returncode == 0:
        number += 1
        name = f"dmcrypt-inline-{target.name}-{number}"
    _git(own, "branch", name, tip)
    return [f"the patches of {target.name} are on the new branch {name}", f"  to go there: git -C {own} switch {name}"]
