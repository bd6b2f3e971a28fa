"""Stage 'posting': the queue as mails for git send-email, signed off by the person who sends. Nothing is sent."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.header import Header
from email.utils import formataddr, parseaddr
from itertools import accumulate, count
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git, resolve
from ..common.paths import log_dir
from ..common.progress import say
from ..common.run import run
from .mails import adds_selftests, parse_mail
from .selftests import CONTEXT
from .series import FORMAT, Tree, read_series
from .targets import Target

STABLE = "stable@vger.kernel.org"
SENDER = re.compile(r"[^<>@\"\x00-\x1f]+ <[!-;=?A-~]+@[!-;=?A-~]+>")
TRAILER = re.compile(r"[A-Z][A-Za-z-]*: \S.*")


@dataclass(frozen=True)
class Posting:
    """How to post: the sender as "Name <address>", further trailers, the version (1 is not shown).

    Raises UserError for a sender or a trailer that no mail can have.
    """

    sender: str
    trailers: tuple[str, ...] = ()
    version: int = 1

    def __post_init__(self) -> None:
        if not SENDER.fullmatch(self.sender):
            raise UserError(
                f'SIGN={self.sender!r} is no name and address: make outbox SIGN="Name <name@example.org>"\n'
                "  a sign-off says that you may pass these patches on (Documentation/process/submitting-patches.rst)"
            )
        for trailer in self.trailers:
            if not TRAILER.fullmatch(trailer) or trailer.lower().startswith("signed-off-by:"):
                raise UserError(f"TRAILER={trailer!r}: give a line like 'Assisted-by: Name'; SIGN= adds Signed-off-by:")


@dataclass(frozen=True)
class Thread:
    """Patches that are posted together, and take the tree from `base` to `tip`.

    `directory` is the name of their outbox, `cover` the text of the letter that leads them ("": there is none).
    """

    directory: str
    cover: str
    patches: Sequence[Path]
    base: str
    tip: str


def postings(target: Target) -> list[tuple[str, list[Path]]]:
    """The cover letters and the patches that each leads; the selftests come last, without a letter.

    The file of the letters can have several, each from its line From: on. Then the number in "PATCH 0/3" says how many
    patches a letter leads. Raises UserError unless they lead all patches before the selftests.
    """
    patches = read_series(target)
    tests = [patch for patch in patches if adds_selftests(parse_mail(patch.read_text()))]
    own = patches[: len(patches) - len(tests)]
    letters = re.split("^(?=From: )", target.cover.read_text(), flags=re.M)[1:] if target.cover.is_file() else [""]
    counts = [int(parse_mail(letter).tag.rpartition("/")[2]) for letter in letters] if letters[1:] else [len(own)]
    if patches != [*own, *tests] or sum(counts) != len(own):
        raise UserError(
            f"{target.series}: the selftests are not last, or {target.cover} leads other patches than these"
        )
    ends = [*accumulate(counts, initial=0)]
    found = [(letter, own[first:last]) for letter, first, last in zip(letters, ends, ends[1:])]
    return [*found, ("", tests)] if tests else found


def threads(tree: Tree) -> list[Thread]:
    """The postings of the queue: outbox, or outbox-1 and so on; outbox-selftests."""
    found: list[Thread] = []
    commits = [tree.base, *tree.commits]
    several = len([letter for letter, _ in postings(tree.target) if letter]) > 1
    for number, (letter, patches) in enumerate(postings(tree.target), 1):
        first = sum(len(thread.patches) for thread in found)
        tests = adds_selftests(parse_mail(patches[0].read_text()))
        name = "outbox-selftests" if tests else f"outbox-{number}" if several else "outbox"
        found.append(Thread(name, letter, patches, commits[first], commits[first + len(patches)]))
    return found


def write_mails(tree: Tree, thread: Thread, posting: Posting, out: Path) -> list[Path]:
    """Write the thread's mails, as git format-patch makes them, into `out`; returns them in their order.

    Another directory there keeps the mails of earlier runs.
    """
    log = log_dir(tree.target.name) / "outbox.log"
    name, address = _person(posting.sender)
    env = {
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
        "GIT_COMMITTER_DATE": f"{int(time.time())} +0000",
    }
    words: list[str | Path] = [*FORMAT, "--thread", "--from", "--signoff", *recipients(tree, thread.patches)]
    words += ["--cover-letter"] if thread.cover else CONTEXT
    words += [f"-v{posting.version}"] if posting.version > 1 else []
    words += [f"--subject-prefix=PATCH {tree.target.tag.removeprefix('v')}.y"] if tree.target.long_term else []
    letter = parse_mail(thread.cover) if thread.cover else None
    words += ["--rfc"] if letter and letter.tag.startswith("RFC") else []
    tip = _commits(tree, thread, posting, env)
    if out.is_dir() and any(out.iterdir()):
        places = (out.with_name(f"{out.name}.{number}") for number in count(1))
        free = next(place for place in places if not place.exists())
        say(f"the mails of the last run are now in {out.rename(free)}")
    git(tree.path, "format-patch", "-q", "-o", out, *words, f"{thread.base}..{tip}", log=log, env=env)
    mails = sorted(out.iterdir())
    if letter:
        # git writes a subject and a body of its own there, and does not encode what stands for them.
        subject = Header(letter.summary, header_name="Subject: [PATCH v1 00/00]").encode()
        head = mails[0].read_text().partition("\n\n")[0].replace("*** SUBJECT HERE ***", subject)
        head = re.sub("^From: .*", f"From: {formataddr((name, address))}", head, flags=re.M)
        stat = git(tree.path, "diff", "--stat=72", "--summary", thread.base, thread.tip, log=log).output.rstrip()
        # git's own --base would name the first commit of the tree, which nobody else has.
        commit = base_commit_of(tree, log)
        last = f"\nbase-commit: {commit}\n" if commit else ""
        mails[0].write_text(f"{head}\n\n{letter.body.rstrip()}\n\n{stat}\n{last}")
    return mails


def recipients(tree: Tree, patches: Sequence[Path]) -> list[str]:
    """The addresses for all mails, from the tree's get_maintainer.pl, as --to= and --cc= of git format-patch.

    The patches of a long-term kernel go to the stable team, and in copy to the others.
    """
    script = tree.path / "scripts" / "get_maintainer.pl"
    if not script.is_file():
        return [f"--to={each}" for each in tree.target.lists]
    log = log_dir(tree.target.name) / "outbox.log"
    words = ("--no-git", "--no-git-fallback", "--no-rolestats", "--no-roles")
    said = run(["perl", script, *words, *patches], log=log, timeout=300, cwd=tree.path).output
    others = [formataddr(parseaddr(line)) for line in said.splitlines()]
    if tree.target.long_term:
        return [f"--to={STABLE}", *(f"--cc={each}" for each in others)]
    return [f"--to={each}" for each in others]


def _person(text: str) -> tuple[str, str]:
    """Name and address of "Name <address>", where the name may have commas."""
    name, _, address = text.rpartition(" <")
    return name, address.rstrip(">")


def _commits(tree: Tree, thread: Thread, posting: Posting, env: dict[str, str]) -> str:
    """Commit the thread's patches again, with the trailers; returns the last commit, which is in no branch.

    The sender becomes the author of the project's own patches. Those of other authors keep them.
    """
    log = log_dir(tree.target.name) / "outbox.log"
    cover = tree.target.cover
    project = parse_mail(cover.read_text()).author if cover.is_file() else ""
    trailers = [word for trailer in posting.trailers for word in ("--trailer", trailer)]
    tip = thread.base
    for commit in git(tree.path, "rev-list", "--reverse", f"{thread.base}..{thread.tip}", log=log).output.split():
        said = git(tree.path, "log", "-1", "--format=%an <%ae>%n%B", commit, log=log).output
        author, _, message = said.partition("\n")
        name, address = _person(posting.sender if author == project else author)
        text = f"{message.strip()}\n".encode()
        text = git(tree.path, "interpret-trailers", "--no-divider", *trailers, log=log, stdin=text).output.encode()
        again = ("commit-tree", f"{commit}^{{tree}}", "-p", tip)
        authors = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": env["GIT_COMMITTER_DATE"]}
        tip = git(tree.path, *again, log=log, env={**env, **authors}, stdin=text).output.strip()
    return tip


def base_commit_of(tree: Tree, log: Path) -> str | None:
    """The commit of the target's tag, or the user's commit with its files; None if neither is known."""
    if tree.target.below:
        return None
    own, name = tree.taken or (tree.path, "")
    if name == "HEAD" and tree.target.commit:
        return tree.target.commit
    return resolve(own, f"{name}^{{commit}}", log) if name else tree.target.commit or None
