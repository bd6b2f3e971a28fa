"""A queue onto any tree of the user's: as a new branch, made beside work tree and index, which nobody touches."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import log_dir
from ..common.run import Completed, run
from .selftests import IN_TREE
from .series import read_series
from .targets import TARGETS, Target

FLAG = "no_read_workqueue"  # in dm-crypt.c: the tree has the flags
LIBRARY = "lib/libcryptsetup.h"
LIBRARY_FLAG = "CRYPT_ACTIVATE_NO_READ_WORKQUEUE"  # there: cryptsetup has them
MAKEFILE = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(.*?)[ \t]*$", re.M)


def apply_queue(variable: str, own: Path, named: Target | None) -> list[str]:
    """Commit the queue on a new branch of the repository `own`; what was done, line by line.

    `variable` is LINUX or CRYPTSETUP; `named` is the target that the user asked for, None to choose
    by what is in the tree's last commit. Raises UserError when it is no git repository, when no queue
    suits it, and when the queue does not apply: then there is no branch, and nothing has changed.
    """
    if named and named.variable != variable:
        raise UserError(
            f"TARGET={named.name} is for {named.variable}=, and the tree that was given is {variable}={own}\n"
            f"  leave TARGET= out, or give one of: {', '.join(target.name for target in _targets(variable))}"
        )
    if named and named.below:
        raise UserError(
            f"TARGET={named.name} is stacked: make am TARGET={named.below}, then git am {named.patches}/*.patch there"
        )
    log = log_dir((named or _targets(variable)[0]).name) / "am.log"
    asked = _Repo(own, log).ask("rev-parse", "--absolute-git-dir")
    if asked.returncode != 0:
        raise UserError(
            f"{variable}={own} is no git repository that could have a branch\n  git says: {asked.transcript.strip()}\n"
            "  into a source tree without git the queue goes with quilt or patch: see docs/own-tree.md"
        )
    # From a directory further down git apply would leave out what lies beside it.
    top = _Repo(own, log).ask("rev-parse", "--show-toplevel")
    repo = _Repo(Path((asked if top.returncode else top).output.strip()), log)
    head = repo.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}").output.strip()
    if not head:
        raise UserError(f"{variable}={own} has no commit yet")
    what = describe(repo, variable)
    _refuse(repo, variable, what)
    target, why = (named, "") if named else choose(repo, variable)
    tip = _commits(repo, target, head, what)
    branch = _free_name(repo, f"dmcrypt-inline-{target.name}")
    repo.must("branch", branch, tip)
    return [
        f"{own}: {what}, at {head[:12]}",
        *([f"  {why}"] if why else []),
        f"the {len(read_series(target))} patches for {target.name} are on the new branch {branch};"
        " work tree, index and other branches are as they were",
        f"  to go there: git -C {own} switch {branch}",
    ]


class _Repo:
    """The user's repository, with the user's own settings: who commits there is the user."""

    def __init__(self, path: Path, log: Path, index: Path | None = None) -> None:
        self.path, self.log, self.index = path, log, index

    def ask(
        self, *words: str | Path, stdin: bytes | None = None, env: dict[str, str] | None = None, check: bool = False
    ) -> Completed:
        """What git says; unless `check` the caller looks whether it failed."""
        own = {"GIT_INDEX_FILE": str(self.index)} if self.index else {}
        argv = ["git", "-C", self.path, *words]
        return run(argv, log=self.log, timeout=600, env={**own, **(env or {})}, stdin=stdin, check=check)

    def must(self, *words: str | Path, stdin: bytes | None = None, env: dict[str, str] | None = None) -> str:
        """What git says, without white space around it; CommandError when it fails."""
        return self.ask(*words, stdin=stdin, env=env, check=True).output.strip()

    def text(self, path: str) -> str | None:
        """A file of the last commit; None when it has none of that name."""
        found = self.ask("show", f"HEAD:{path}")
        return found.output if found.returncode == 0 else None


def _targets(variable: str) -> list[Target]:
    return [target for target in TARGETS.values() if target.variable == variable and not target.below]


def describe(repo: _Repo, variable: str) -> str:
    """What the tree says it is."""
    if variable == "LINUX":
        words = dict(MAKEFILE.findall(repo.text("Makefile") or ""))
        if "VERSION" in words:
            numbers = ".".join(words.get(key) or "0" for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
            return f"Linux {numbers}{words.get('EXTRAVERSION', '')}"
        return "a tree that does not say which Linux it is"
    found = re.search(r"AC_INIT\(\[cryptsetup\],\s*\[([^]]*)\]", repo.text("configure.ac") or "")
    return f"cryptsetup {found[1]}" if found else "a tree that does not say which cryptsetup it is"


def _refuse(repo: _Repo, variable: str, what: str) -> None:
    """Raise UserError when the tree is none of the kind that `variable` stands for, or needs no queue of ours."""
    linux = variable == "LINUX"
    wanted = next(target.source for target in _targets(variable)) if linux else LIBRARY
    text = repo.text(wanted)
    tree = f"{variable}={repo.path} ({what})"
    if text is None:
        raise UserError(f"{tree} has no {wanted}: it is no {'kernel' if linux else 'cryptsetup'} tree")
    if linux and repo.ask("cat-file", "-e", f"HEAD:{IN_TREE}").returncode == 0:
        raise UserError(f"{tree} has {IN_TREE} already: a queue of ours is in it")
    if not linux and LIBRARY_FLAG in text:
        raise UserError(f"{tree} has {LIBRARY_FLAG} already: released since 2.3.4, or our queue is in it")


def choose(repo: _Repo, variable: str) -> tuple[Target, str]:
    """The target that the tree is, or is nearest to, and why it was chosen."""
    candidates = _targets(variable)
    for target in candidates:
        if _has_files(repo, target):
            return target, f"its files are those of {target.tag}"
    if variable != "LINUX":
        return candidates[0], f"the nearest target is {candidates[0].tag}"
    has_flags = FLAG in (repo.text(candidates[0].source) or "")
    alike = sorted((each for each in candidates if each.has_flags == has_flags), key=lambda each: _number(each.tag))
    number = _number(describe(repo, variable)) or _number(alike[-1].tag)
    # A long-term queue brings what its kernel lacks: those after it have that already.
    target = next((each for each in alike if _number(each.tag) >= number), alike[-1])
    return target, f"its dm-crypt {'has' if has_flags else 'lacks'} the flags; the nearest target is {target.tag}"


def _number(name: str) -> tuple[int, ...]:
    """The first two numbers of a version in a text: (6, 12); empty where there is none."""
    found = re.search(r"(\d+)\.(\d+)", name)
    return (int(found[1]), int(found[2])) if found else ()


def _has_files(repo: _Repo, target: Target) -> bool:
    return all(_blob(repo, path).startswith(blob) for path, blob in target.blobs.items())


def _blob(repo: _Repo, path: str) -> str:
    return repo.ask("rev-parse", "--verify", "--quiet", f"HEAD:{path}").output.strip()


def _commits(repo: _Repo, target: Target, head: str, what: str) -> str:
    """The queue as commits after `head`; returns the last one. They are in no branch yet."""
    patches = read_series(target)
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        place = Path(name)
        beside = _Repo(repo.path, repo.log, place / "index")
        beside.must("read-tree", head)
        tip = head
        for number, patch in enumerate(patches, 1):
            info = beside.must("mailinfo", place / "message", place / "diff", stdin=patch.read_bytes())
            mail = dict(line.split(": ", 1) for line in info.splitlines() if ": " in line)
            applied = beside.ask("apply", "--cached", "--3way", "--whitespace=nowarn", place / "diff")
            if applied.returncode != 0:
                raise UserError(
                    f"patch {number}, {patch.name}, does not apply to {repo.path} ({what}):\n"
                    + _why(repo, target, applied.transcript)
                )
            message = f"{mail['Subject']}\n\n{(place / 'message').read_text()}"
            author = {
                "GIT_AUTHOR_NAME": mail["Author"],
                "GIT_AUTHOR_EMAIL": mail["Email"],
                "GIT_AUTHOR_DATE": mail["Date"],
            }
            tree = beside.must("write-tree")
            if tree == beside.must("rev-parse", f"{tip}^{{tree}}"):
                raise UserError(
                    f"patch {number}, {patch.name}, changes nothing in {repo.path} ({what}): is it there already?\n"
                    "  expected a tree without the queue; no branch was made, and nothing has changed"
                )
            tip = beside.must("commit-tree", tree, "-p", tip, "-F", "-", stdin=message.encode(), env=author)
    return tip


def _why(repo: _Repo, target: Target, said: str) -> str:
    """Where git found a difference, which files are others, and what is nearest."""
    nearest, _ = choose(repo, target.variable)
    lines = [line for line in said.splitlines() if "lacks the necessary blob" not in line]
    where = [line for line in lines if line.startswith("error:")] or lines
    others = [
        f"{path}: {_blob(repo, path)[:12] or 'missing'}, in {target.tag} {blob}"
        for path, blob in target.blobs.items()
        if not _blob(repo, path).startswith(blob)
    ]
    return "\n".join(
        [
            *(f"    {line}" for line in where),
            *(["  files that are not those of the target:"] if others else []),
            *(f"    {line}" for line in others),
            f"  the nearest target is {nearest.name}, {nearest.tag} of {nearest.upstream}"
            + ("" if nearest == target else ", which is taken without TARGET="),
            "  nothing has changed. To settle the conflicts by hand, on a branch of your own:",
            f"    git -C {repo.path} am -3 {target.patches}/*.patch",
        ]
    )


def _free_name(repo: _Repo, wanted: str) -> str:
    name, number = wanted, 1
    while repo.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{name}").returncode == 0:
        number += 1
        name = f"{wanted}-{number}"
    return name
