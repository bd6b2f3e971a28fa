"""The stages that apply a queue, maintain it, and export it."""

from collections.abc import Sequence
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import build_dir, log_dir
from ..common.progress import say
from ..trees import am as am_stage
from ..trees import outbox as outbox_stage
from ..trees import package as package_stage
from ..trees import refresh as refresh_stage
from ..trees.base import has_files
from ..trees.outbox import Posting
from ..trees.series import check_out_all
from ..trees.targets import TARGETS
from .request import Request


def tree(request: Request) -> None:
    """Make build/<target>/tree and say where it is."""
    made = check_out_all(request.tree(request.target()))
    say(f"{made.path}: base {made.base[:12]} from {made.origin}; series {made.series[:12]}")
    say(f"the {len(made.commits)} patches are commits on the branch queue, after the tag base")
    say(f"  edit them with git as usual, for example:  git -C {made.path} rebase -i base")
    say(f"  then write them back into the queue:       make refresh TARGET={made.target.name}")


def refresh(request: Request) -> None:
    """Write the commits of the tree back into the queue."""
    target = request.target()
    for line in refresh_stage.write_back(target, request.base(target)):
        say(line)


def am(request: Request) -> None:
    """Commit the queue that fits the user's tree on a new branch there."""
    named = request.target() if request.target_name else None
    if len(request.own) != 1:
        raise UserError("give a git repository, LINUX= or CRYPTSETUP=, for example:\n    make am LINUX=~/src/linux")
    [(variable, own)] = request.own.items()
    for line in am_stage.apply_queue(variable, own, named):
        say(line)


def outbox(request: Request, sign: str, trailers: Sequence[str], version: int) -> None:
    """Write the queue as mails to build/<target>/outbox, and its selftests to outbox-selftests."""
    target = request.target()
    posting = Posting(sign, tuple(trailers), version)
    applied = request.tree(target)
    log = log_dir(target.name) / "outbox.log"
    for thread in outbox_stage.threads(applied):
        out = build_dir(target.name) / thread.directory
        mails = outbox_stage.write_mails(applied, thread, posting, out)
        say(f"{len(mails)} mails in {out}; their headers name the recipients")
    if not outbox_stage.base_commit_of(applied, log):
        say(f"no base-commit: give {target.variable}= a git tree that has the tag {target.tag}, or its files")
    if not has_files(target, applied.path, applied.base, log):
        say(f"the index lines are those of {applied.origin}; for those of {target.tag} give {target.variable}=")
    say("nothing is sent")


def package(request: Request, version: str) -> None:
    """Make the package with the drivers of all its targets."""
    packaged(request, version)


def packaged(request: Request, version: str) -> Path:
    """Make the package, print its path, and return it."""
    drivers = [package_stage.driver_of(request.tree(target)) for target in TARGETS.values() if target.in_package]
    made = package_stage.make(drivers, version)
    say(str(made))
    say(f"  for Linux {', '.join(f'{driver.series} up to .{driver.highest}' for driver in drivers)}")
    return made
