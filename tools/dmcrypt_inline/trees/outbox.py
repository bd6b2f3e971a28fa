"""Stage 'posting': the queue as mails for git send-email, signed off by the person who sends. Nothing is sent."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.header import Header
from email.utils import formataddr, parseaddr
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import blob_id, git, resolve
from ..common.paths import log_dir
from ..common.run import run
from .mails import adds_selftests, parse_mail
from .selftests import CONTEXT
from .series import FORMAT, Tree, read_series

UNSEEN = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # would end a line of a header, or has no place in a mail
WORD, LABEL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+", r"[A-Za-z0-9-]+"
ADDRESS = rf"{WORD}(?:\.{WORD})*@{LABEL}(?:\.{LABEL})*"
PERSON = re.compile(rf'\s*"?([^<>@"{UNSEEN}]*[^<>@"\s{UNSEEN}])"?\s*<({ADDRESS})>\s*')
LIST = re.compile(ADDRESS)
TRAILER = re.compile(rf"[A-Z][A-Za-z]*(-[A-Za-z]+)*: [^\s{UNSEEN}][^{UNSEEN}]*")
STABLE = "stable@vger.kernel.org"
WRITTEN = ".written"  # in the outbox: what the mails were when they were written


@dataclass(frozen=True)
class Posting:
    """How to post: `sender` as "Name <address>", further trailers, the version (1 is not shown)."""

    sender: str
    trailers: tuple[str, ...] = ()
    version: int = 1


@dataclass(frozen=True)
class Recipients:
    """Whom the mails are for, as in their headers: `to` maintainers, `cc` lists."""

    to: tuple[str, ...]
    cc: tuple[str, ...]


def checked(posting: Posting) -> Posting:
    """The posting, when mails can be made of it. Raises UserError that says what is wrong with it."""
    if not PERSON.fullmatch(posting.sender):
        raise UserError(
            f"SIGN={posting.sender!r}: who sends, and signs off?\n"
            '  give a name and an address (in ASCII): make outbox SIGN="Name <name@example.org>"\n'
            "  a sign-off says that you may pass these patches on (see Documentation/process/submitting-patches.rst)"
        )
    for trailer in posting.trailers:
        if not TRAILER.fullmatch(trailer):
            raise UserError(f"TRAILER={trailer!r}: no trailer; expected something like 'Assisted-by: Name'")
        if trailer.lower().startswith("signed-off-by:"):
            raise UserError(f"TRAILER={trailer!r}: who signs off is who sends; give that as SIGN=")
    if posting.version < 1:
        raise UserError(f"VERSION={posting.version}: the first version is 1")
    return posting


@dataclass(frozen=True)
class Thread:
    """Patches that are posted together: `directory` is for their mails, `cover` the letter that leads them, if any.

    They take the tree from `base` to `tip`.
    """

    directory: str
    cover: Path | None
    patches: Sequence[Path]
    base: str
    tip: str


def threads(tree: Tree) -> list[Thread]:
    """The queue, and the selftests that it ends with. Raises UserError where they are not its end."""
    patches = read_series(tree.target)
    tests = [patch for patch in patches if adds_selftests(parse_mail(patch.read_text()))]
    own = patches[: len(patches) - len(tests)]
    if patches != [*own, *tests]:
        raise UserError(f"the patches of the selftests are not the last of {tree.target.name}: {tree.target.series}")
    between = tree.commits[len(own) - 1] if own else tree.base
    found = [Thread("outbox", tree.target.cover, own, tree.base, between)]
    return [*found, Thread("outbox-selftests", None, tests, between, tree.series)] if tests else found


def recipients(tree: Tree, patches: Sequence[Path]) -> Recipients:
    """Whom the tree's own get_maintainer.pl names for all patches together; the target's list where it has none.

    For a long-term kernel they get copies: the stable team takes patches, by Documentation/process/stable-kernel-rules.
    """
    script = tree.path / "scripts" / "get_maintainer.pl"
    if not script.is_file():
        return Recipients(tree.target.kind.lists, ())
    log = log_dir(tree.target.name) / "outbox.log"
    words: list[str | Path] = ["perl", script, "--no-git", "--no-git-fallback", "--no-rolestats", "--no-roles"]
    people = _addresses(run([*words, "--no-l", *patches], log=log, timeout=300, cwd=tree.path).output)
    lists = _addresses(run([*words, "--no-m", "--no-r", *patches], log=log, timeout=300, cwd=tree.path).output)
    if not people and not lists:
        raise UserError(f"{script} names nobody for these patches\n  log: {log}")
    if tree.target.long_term:
        return Recipients((STABLE,), (*people, *(each for each in lists if each not in (*people, STABLE))))
    return Recipients(people, tuple(each for each in lists if each not in people))


def _addresses(said: str) -> tuple[str, ...]:
    """The addresses among what the script says: git may complain there of commits that the tree does not have."""
    lines = [line.strip() for line in said.splitlines()]
    return tuple(dict.fromkeys(line for line in lines if PERSON.fullmatch(line) or LIST.fullmatch(line)))


def write(
    tree: Tree, thread: Thread, posting: Posting, whom: Recipients, *, base_commit: str | None, out: Path
) -> list[Path]:
    """Write the thread's mails, as git format-patch makes them, into the directory `out`; returns them in their order.

    `base_commit` is that tag's commit, None where
    nobody knows it. Raises UserError when `out` holds what was not written here, or was
    edited since: it may be work.
    """
    sender = _person(checked(posting))
    log = log_dir(tree.target.name) / "outbox.log"
    if thread.cover and not thread.cover.is_file():
        raise UserError(f"the queue of {tree.target.name} has no cover letter: {thread.cover}")
    letter = thread.cover.read_text() if thread.cover else ""
    now = int(time.time())
    env = {"GIT_COMMITTER_NAME": sender[0], "GIT_COMMITTER_EMAIL": sender[1], "GIT_COMMITTER_DATE": f"{now} +0000"}
    words: list[str | Path] = [*FORMAT, "--thread", "--from", "--signoff"]
    words += ["--cover-letter"] if thread.cover else CONTEXT
    words += ["--rfc"] if parse_mail(letter).tag.startswith("RFC") else []
    words += [f"-v{posting.version}"] if posting.version > 1 else []
    words += [f"--subject-prefix=PATCH {tree.target.tag.removeprefix('v')}.y"] if tree.target.long_term else []
    words += [*(f"--to={_address(each)}" for each in whom.to), *(f"--cc={_address(each)}" for each in whom.cc)]
    tip = _commits(tree, thread, posting, env, now)
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as made:
        git(tree.path, "format-patch", "-q", "-o", made, *words, f"{thread.base}..{tip}", log=log, env=env)
        mails = {path.name: path.read_text() for path in sorted(Path(made).iterdir())}
    if thread.cover:
        first, body = next(iter(mails)), letter.partition("\n\n")[2].rstrip()
        # git fills these two in, but does not encode them.
        subject = Header(parse_mail(letter).summary, header_name="Subject: [PATCH v1 00/00]").encode()
        head = mails[first].partition("\n\n")[0].replace("*** SUBJECT HERE ***", subject)
        head = re.sub("^From: .*", f"From: {formataddr(sender)}", head, flags=re.M)
        stat = git(tree.path, "diff", "--stat=72", "--summary", thread.base, thread.tip, log=log).output.rstrip()
        # Not git's --base: the tree begins with a commit of its own, not the tag's.
        base = f"\nbase-commit: {base_commit}\n" if base_commit else ""
        mails[first] = f"{head}\n\n{body}\n\n{stat}\n{base}"
    _replace(out, mails)
    return [out / name for name in mails]


def _commits(tree: Tree, thread: Thread, posting: Posting, env: Mapping[str, str], now: int) -> str:
    """The thread's commits made again, of now and with further trailers; returns the last one, which is in no branch.

    The project's own, by whoever the cover letter is from, are the sender's; those of all others stay theirs.
    """
    log = log_dir(tree.target.name) / "outbox.log"
    ours = parse_mail(tree.target.cover.read_text() if tree.target.cover.is_file() else "").author
    trailers = [word for trailer in posting.trailers for word in ("--trailer", trailer)]
    tip = thread.base
    commits = git(tree.path, "rev-list", "--reverse", f"{thread.base}..{thread.tip}", log=log).output.split()
    for number, commit in enumerate(commits, 1):
        said = git(tree.path, "log", "-1", "--format=%an%x00%ae%x00%B", commit, log=log).output
        name, address, message = said.split("\0")
        if f"{name} <{address}>" == ours:
            name, address = _person(posting)
        author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": f"{now + number} +0000"}
        stdin = f"{message.strip()}\n".encode()
        text = git(tree.path, "interpret-trailers", "--no-divider", *trailers, log=log, stdin=stdin).output
        again = ("commit-tree", f"{commit}^{{tree}}", "-p", tip)
        tip = git(tree.path, *again, log=log, env={**env, **author}, stdin=text.encode()).output.strip()
    return tip


def _person(posting: Posting) -> tuple[str, str]:
    """Name and address of a posting that was checked."""
    found = PERSON.fullmatch(posting.sender)
    assert found
    return found[1], found[2]


def _address(given: str) -> str:
    """An address as it may stand in a header."""
    name, address = parseaddr(given)
    return formataddr((name, address)) if name else address


def _replace(out: Path, mails: Mapping[str, str]) -> None:
    """Put the mails where those of an earlier run may lie, if they are as that run left them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UserError(f"{out} is no directory, but the mails go into one of that name\n  move it away") from error
    record = out / WRITTEN
    known = record.read_bytes().decode(errors="replace").splitlines() if record.is_file() else []
    there = [path for path in sorted(out.iterdir()) if path != record or not path.is_file()]
    kept = [path.name for path in there if not path.is_file() or f"{blob_id(path)} {path.name}" not in known]
    if kept:
        raise UserError(
            f"{out} holds mails that were edited, or files that are not ours: {', '.join(kept)}\n"
            "  they would be lost. Move them away, or remove the directory, and run again"
        )
    for path in there:
        path.unlink()
    for name, text in mails.items():
        (out / name).write_text(text)
    record.write_text("".join(f"{blob_id(out / name)} {name}\n" for name in mails))


def base_commit_of(tree: Tree, log: Path) -> str | None:
    """The commit of the target's tag, or the user's commit with its files; None where nobody knows one."""
    if tree.target.below:
        return None
    if tree.taken and tree.taken[1] != "HEAD":
        return resolve(tree.taken[0], f"{tree.taken[1]}^{{commit}}", log)
    return tree.target.commit or (resolve(tree.taken[0], "HEAD", log) if tree.taken else None)
