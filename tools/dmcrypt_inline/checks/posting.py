"""`make check`, the queue as it leaves the house: with quilt, as mails, and by names that others rely on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..common.gitrepo import git, resolve
from ..common.run import run
from ..trees import outbox
from ..trees.outbox import Posting
from ..trees.series import Tree
from .checklist import Check, Failed, Queue, fail_if
from .linux import checkpatch

SENDER = "A Sender <sender@host.example>"  # of mails that nobody sends


def posting_checks(queue: Queue) -> list[Check]:
    """The checks that every queue has for those who take it elsewhere."""
    return [
        Check("quilt_pushes_the_series", lambda: _quilt(queue)),
        Check("outbox_can_be_sent_and_applied", lambda: _outbox(queue)),
        Check("abi_is_the_one_agreed_on", lambda: _abi(queue)),
    ]


def _abi(queue: Queue) -> None:
    """The source has the numbers that others rely on (see Target)."""
    tree = queue.applied()
    problems = []
    for path, numbers in queue.target.abi.items():
        shown = git(tree.path, "show", f"{tree.series}:{path}", log=queue.log, check=False)
        text = shown.output if shown.returncode == 0 else ""
        problems += [f"{path}: it does not have: {number}" for number in numbers if number not in text]
    fail_if(problems)


@contextmanager
def _few_files(tree: Tree, log: Path) -> Iterator[Path]:
    """A clone of the tree at its base that has only the files the queue touches in its work tree."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        place = Path(name) / "few"
        touched = git(tree.path, "diff", "--name-only", tree.base, tree.series, log=log).output.splitlines()
        git(tree.path, "clone", "-q", "--shared", "--no-checkout", tree.path, place, log=log)
        git(place, "sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in touched), log=log)
        git(place, "checkout", "-q", "-B", "few", tree.base, log=log)
        yield place


def _same_tree(tree: Tree, tip: str, place: Path, log: Path, got: str = "HEAD^{tree}") -> None:
    """`place`, or the tree `got` there, has the files of the commit `tip`."""
    if resolve(place, got, log) != resolve(tree.path, f"{tip}^{{tree}}", log):
        differing = git(place, "diff", "--stat", got, tip, log=log, check=False).output
        raise Failed(f"that does not give the tree of the queue:\n{differing.strip()}")


def _quilt(queue: Queue) -> None:
    """`quilt push -a` with the series as it lies here gives the files of the queue."""
    tree = queue.applied_exactly()
    with _few_files(tree, queue.log) as place:
        env = {"QUILT_PATCHES": str(queue.target.patches), "QUILT_SERIES": str(queue.target.series)}
        run(["quilt", "--quiltrc", "-", "push", "-a", "-q"], log=queue.log, timeout=300, cwd=place, env=env)
        touched = git(tree.path, "diff", "--name-only", tree.base, tree.series, log=queue.log).output.splitlines()
        git(place, "add", "-f", "--sparse", "--", *touched, log=queue.log)
        _same_tree(tree, tree.series, place, queue.log, git(place, "write-tree", log=queue.log).output.strip())


def _outbox(queue: Queue) -> None:
    """Signed mails pass checkpatch and git send-email's dry run, and git am makes the queue's tree of them."""
    tree = queue.applied_exactly()
    with _few_files(tree, queue.log) as place:
        home = {"HOME": str(place.parent), "XDG_CONFIG_HOME": str(place.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        words: list[str | Path] = ["git", "send-email", "--dry-run", "--no-thread", "--confirm=never"]
        commit = queue.target.commit or None
        posting = Posting(SENDER, ("Tested-by: " + SENDER,))
        for thread in outbox.threads(tree):
            whom = outbox.recipients(queue.applied(), thread.patches)
            out = place.parent / thread.directory
            mails = outbox.write(tree, thread, posting, whom, base_commit=commit, out=out)
            patches = mails[-len(thread.patches) :]
            if queue.target.is_kernel:
                checkpatch(queue, patches)
            said = run([*words, "--from", SENDER, *mails], log=queue.log, timeout=120, cwd=place, env=home).output
            if said.count("Dry-OK") != len(mails):
                raise Failed(f"git send-email would not send {len(mails)} mails:\n{said}")
            git(place, "am", "-q", *patches, log=queue.log)
            _same_tree(tree, thread.tip, place, queue.log)
