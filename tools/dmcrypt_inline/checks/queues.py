"""`make check`, a queue: its mails, that it applies, its spelling, and the checks of its kind of tree."""

import re
import tempfile
from pathlib import Path

from ..common.gitrepo import git, write_tree
from ..common.paths import REPO
from ..common.run import CommandError
from ..testing.mutants import all_mutants
from ..trees.base import has_files
from ..trees.mails import mail_problems, parse_mail
from ..trees.outbox import postings
from .checklist import Check, Failed, Queue, Skipped, fail_if
from .documentation import documentation_checks
from .linux import linux_checks
from .posting import posting_checks
from .programs import program_checks
from .sources import codespell, succeeds

BELOW = re.compile(r"^---\s*$", re.M)  # git am leaves out what follows
INDEX = re.compile(r"^index ([0-9a-f]+\.\.[0-9a-f]+)", re.M)


def queue_checks(queue: Queue, env: Path) -> list[Check]:
    """All checks of a queue. `env` is the Python environment."""
    kind = (linux_checks, documentation_checks) if queue.target.is_kernel else (program_checks,)
    return [
        *mail_checks(queue, env),
        Check("mutants_apply", lambda: _mutants(queue)),
        *(check for checks_of in kind for check in checks_of(queue)),
        *posting_checks(queue),
    ]


def mail_checks(queue: Queue, env: Path) -> list[Check]:
    """The checks of a queue's mails."""
    return [
        Check("series_and_patch_files_agree", queue.patches),
        Check("patches_are_proper_mails", lambda: _mails(queue)),
        Check("cover_letter_lists_the_patches", lambda: _cover(queue)),
        Check("patches_and_cover_letter_are_spelled_right", lambda: _spelling(queue, env)),
        Check("queue_applies_with_git_am", queue.apply),
        Check("index_lines_are_true", lambda: _index_lines(queue)),
    ]


def _mails(queue: Queue) -> None:
    asked = git(REPO, "log", "--format=%an <%ae>", log=queue.log, check=False)  # fails outside a git repository
    authors = sorted(set(asked.output.splitlines()))
    problems = []
    for patch in queue.patches():
        mail = parse_mail(patch.read_text())
        problems += [f"{patch.name}: {problem}" for problem in mail_problems(mail, BELOW.split(mail.body)[0])]
        if authors and mail.author not in authors:
            problems.append(f"{patch.name}: From: is {mail.author}, expected {' or '.join(authors)}")
    fail_if(problems)
    if not authors:
        raise Skipped("the author is not known outside a git repository; all else is right")


def _cover(queue: Queue) -> None:
    if not queue.target.cover.is_file():
        raise Failed(f"there is no {queue.target.cover}")
    for letter, patches in postings(queue.target):
        if not letter:
            continue  # the selftests
        mail = parse_mail(letter)
        body, problems = " ".join(mail.body.split()), mail_problems(mail, mail.body)
        summaries = [parse_mail(patch.read_text()).summary for patch in patches]
        problems += [f"it does not list: {summary}" for summary in summaries if summary not in body]
        if "not tested" not in body.lower():
            problems.append("it does not say what was not tested")
        fail_if(problems)


def _spelling(queue: Queue, env: Path) -> None:
    """Run codespell over the cover letter, the patches' messages and the lines that they add."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        for file in (*queue.patches(), *([queue.target.cover] if queue.target.cover.is_file() else [])):
            text, _, diffs = file.read_text().partition("\ndiff --git ")
            # The context and the removed lines quote the tree.
            lines = (line if line.startswith("+") else "\n" for line in diffs.splitlines(keepends=True))
            (Path(name) / file.name).write_text(f"{text}\n{''.join(lines)}")
        succeeds([*codespell(env / "bin"), "."], queue.log, Path(name))


def _index_lines(queue: Queue) -> None:
    """Compare the blob ids in the patch files with those of the commits; `git am -3` needs them."""
    tree = queue.applied()
    if not has_files(tree.target, tree.path, tree.base, queue.log):
        raise Skipped(f"the index lines are those of {tree.target.tag}: give {tree.target.variable}= a git tree of it")
    problems = []
    for patch, commit in zip(queue.patches(), tree.commits):
        made = git(tree.path, "show", "--format=", "--abbrev=12", commit, log=queue.log).output
        if INDEX.findall(patch.read_text()) != INDEX.findall(made):
            problems.append(f"{patch.name}: its index lines are not those of its commit")
    fail_if(problems)


def _mutants(queue: Queue) -> None:
    tree, problems = queue.applied(), []
    for mutant in all_mutants(tree.target):
        listed = git(tree.path, "ls-tree", "-r", tree.series, "--", *tree.target.replaced, log=queue.log).output
        try:
            write_tree(tree.path, listed.splitlines(), queue.log, patches=[mutant.patch])
        except CommandError:
            problems.append(f"{mutant.patch} does not apply to the tree of {tree.target.name}")
    fail_if(problems)
