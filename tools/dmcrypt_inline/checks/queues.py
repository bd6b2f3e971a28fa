"""`make check`, the queue's half: mails, application, spelling, and what its kind of tree asks for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.gitrepo import git, known_authors
from ..common.paths import log_dir
from ..common.progress import say
from ..common.run import run
from ..trees.base import BaseTree, prepare_exact
from ..trees.mails import adds_selftests, cover_problems, index_problems, parse_mail, patch_problems
from ..trees.series import Tree, apply_series
from ..trees.targets import Target
from .checklist import Check, Failed, Queue, Skipped, fail_if, run_checks
from .cryptsetup import cryptsetup_checks
from .documentation import documentation_checks
from .linux import linux_checks, style_check
from .posting import posting_checks
from .sources import IGNORED_WORDS
from .static_analysis import source_reading_checks


def check(target: Target, base: BaseTree, env: Path, quick: bool, kernel: Tree | None = None) -> Counts:
    """Run the checks of the target's queue; `quick`: but for the slow ones."""
    say(f"the queue of {target.name}:")
    return run_checks(queue_checks(target, base, env, quick, kernel), quick)


def check_mails(target: Target, base: BaseTree, env: Path) -> Counts:
    """Run those that look at the mails of a kernel's queue and apply them."""
    say(f"the mails of {target.name}:")
    queue, applies = _queue(target, base, True, None)
    return run_checks([*_mail_checks(queue, applies, env), style_check(queue)])


def queue_checks(target: Target, base: BaseTree, env: Path, quick: bool, kernel: Tree | None = None) -> list[Check]:
    """Every check of the target's queue that needs no guest. `env` is the Python environment, `kernel` as in Queue."""
    queue, applies = _queue(target, base, quick, kernel)
    own = (linux_checks, source_reading_checks, documentation_checks) if target.is_kernel else (cryptsetup_checks,)
    return [
        *_mail_checks(queue, applies, env),
        *(check for checks_of in own for check in checks_of(queue)),
        *posting_checks(queue),
    ]


def _queue(target: Target, base: BaseTree, quick: bool, kernel: Tree | None) -> tuple[Queue, list[Check]]:
    """The queue, and what says whether it applies."""
    log = log_dir(target.name) / "check.log"
    log.unlink(missing_ok=True)
    tree, judge = _attempt(lambda: apply_series(target, base))
    exact = tree
    checks = [Check("queue_applies_with_git_am", judge)]
    if target.recipe.exact is not None:
        exact, judge = _attempt(lambda: apply_series(target, prepare_exact(target, base), target.tag))
        checks.append(Check(f"queue_applies_to_the_files_of_{target.tag}", judge))
    return Queue(target, tree, exact, log, quick, kernel), checks


def _mail_checks(queue: Queue, applies: Sequence[Check], env: Path) -> list[Check]:
    return [
        Check("series_and_patch_files_agree", queue.patches),
        Check("patches_are_proper_mails", lambda: _mails(queue)),
        Check("cover_letter_lists_the_patches", lambda: _cover(queue)),
        Check("patches_and_cover_letter_are_spelled_right", lambda: _spelling(queue, env)),
        *applies,
        Check("index_lines_are_true", lambda: _index_lines(queue)),
        Check("patches_add_no_whitespace_errors", lambda: _whitespace(queue)),
    ]


def _attempt(make: Callable[[], Tree]) -> tuple[Tree | None, Callable[[], None]]:
    """A tree, None where it could not be made, and what raises the reason then."""
    try:
        return make(), lambda: None
    except UserError as error:
        return None, partial(_refuse, error)


def _refuse(why: UserError) -> None:
    raise why


def _mails(queue: Queue) -> None:
    patches = queue.patches()
    authors = known_authors(queue.log)
    problems = []
    for number, patch in enumerate(patches, 1):
        found = patch_problems(patch.read_text(), number, len(patches), authors, queue.target.prefixes)
        problems += [f"{patch.name}: {problem}" for problem in found]
    fail_if(problems)
    if not authors:
        raise Skipped("this is no git repository, so nobody knows who the author should be; the rest is right")


def _cover(queue: Queue) -> None:
    if not queue.target.cover.is_file():
        raise Failed(f"there is no {queue.target.cover}")
    mails = [parse_mail(patch.read_text()) for patch in queue.patches()]
    summaries = [mail.summary for mail in mails if not adds_selftests(mail)]
    fail_if(cover_problems(queue.target.cover.read_text(), summaries))


def _spelling(queue: Queue, env: Path) -> None:
    """codespell over what is ours: the cover letter, the mails' text and the lines that the patches add."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        for file in (*queue.patches(), *([queue.target.cover] if queue.target.cover.is_file() else [])):
            (Path(name) / file.name).write_text(own_words(file.read_text()))
        argv: list[str | Path] = [env / "bin" / "codespell", "--ignore-words", IGNORED_WORDS, "."]
        done = run(argv, log=queue.log, timeout=300, cwd=Path(name), check=False)
    if done.returncode != 0:
        raise Failed(done.output.strip())


def own_words(patch: str) -> str:
    """A patch with the lines that quote the tree, as context or to remove them, made empty."""
    text, _, diffs = patch.partition("\ndiff --git ")
    return f"{text}\n" + "".join(line if line.startswith("+") else "\n" for line in diffs.splitlines(keepends=True))


def _index_lines(queue: Queue) -> None:
    tree = queue.applied_exactly()
    problems = []
    for patch, commit in zip(queue.patches(), tree.commits):
        raw = git(tree.path, "diff-tree", "-r", "--no-commit-id", "--full-index", commit, log=queue.log).output
        blobs = [(line.split()[2], line.split()[3]) for line in raw.splitlines()]
        problems += [f"{patch.name}: {problem}" for problem in index_problems(patch.read_text(), blobs)]
    fail_if(problems)


def _whitespace(queue: Queue) -> None:
    tree = queue.applied()
    problems = []
    for patch, commit in zip(queue.patches(), tree.commits):
        done = git(tree.path, "diff-tree", "--check", "--no-commit-id", "-r", commit, log=queue.log, check=False)
        if done.returncode != 0:
            problems.append(f"{patch.name}:\n{done.output.strip()}")
    fail_if(problems)
