"""`make check`, the queue as others take it: with quilt and as mails."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..common.gitrepo import git, resolve
from ..common.run import run
from ..trees import outbox
from ..trees.outbox import Posting
from ..trees.series import Tree
from .checklist import Check, Failed, Queue
from .linux import checkpatch

SENDER = "A Sender <sender@host.example>"


def posting_checks(queue: Queue) -> list[Check]:
    """The checks of a queue that leaves this repository."""
    return [
        Check("quilt_pushes_the_series", lambda: _quilt(queue), ("quilt",)),
        Check("patch_mails_can_be_sent_and_applied", lambda: _patch_mails(queue), ("perl", "git-send-email")),
    ]


@contextmanager
def _base_clone(queue: Queue) -> Iterator[Path]:
    """A clone at the tree's base. Its work tree has only the files that the queue changes."""
    tree, log = queue.applied(), queue.log
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        place = Path(name) / "clone"
        git(tree.path, "clone", "-q", "--shared", "--no-checkout", tree.path, place, log=log)
        git(place, "sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in queue.paths()), log=log)
        git(place, "checkout", "-q", "-B", "clone", tree.base, log=log)
        yield place


def _fail_unless_equal(tree: Tree, tip: str, place: Path, log: Path, got: str = "HEAD^{tree}") -> None:
    """Raise Failed unless the tree object `got` of the clone `place` is that of the commit `tip`."""
    if resolve(place, got, log) != resolve(tree.path, f"{tip}^{{tree}}", log):
        differing = git(place, "diff", "--stat", got, tip, log=log, check=False).output
        raise Failed(f"the result differs from the queue's tree:\n{differing.strip()}")


def _quilt(queue: Queue) -> None:
    """Run `quilt push -a` with the series file as it is; the result equals the tree."""
    tree = queue.applied()
    with _base_clone(queue) as place:
        env = {"QUILT_PATCHES": str(queue.target.patches), "QUILT_SERIES": str(queue.target.series)}
        run(["quilt", "--quiltrc", "-", "push", "-a", "-q"], log=queue.log, timeout=300, cwd=place, env=env)
        git(place, "add", "-f", "--sparse", "--", *queue.paths(), log=queue.log)
        written = git(place, "write-tree", log=queue.log).output.strip()
        _fail_unless_equal(tree, tree.series, place, queue.log, written)


def _patch_mails(queue: Queue) -> None:
    """Sign the mails, then run `git send-email --dry-run` and `git am`; the result equals the tree.

    make check runs checkpatch, too. In make test only the patches are checked, which lack the signatures.
    """
    tree = queue.applied()
    with _base_clone(queue) as place:
        home = {"HOME": str(place.parent), "XDG_CONFIG_HOME": str(place.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        send: list[str | Path] = ["git", "send-email", "--dry-run", "--no-thread", "--confirm=never", "--from", SENDER]
        posting = Posting(SENDER, ("Tested-by: " + SENDER,))
        for thread in outbox.threads(tree):
            mails = outbox.write_mails(tree, thread, posting, place.parent / thread.directory)
            patches = mails[-len(thread.patches) :]
            if queue.target.is_kernel and not queue.quick:
                checkpatch(queue, patches)
            output = run([*send, *mails], log=queue.log, timeout=120, cwd=place, env=home).transcript
            if output.count("Dry-OK") != len(mails):
                raise Failed(f"git send-email would not send {len(mails)} mails:\n{output}")
            git(place, "am", "-q", *patches, log=queue.log)
            _fail_unless_equal(tree, thread.tip, place, queue.log)
