"""checks/linux.py: what Fixes: names is looked up where there is a history to look in."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, git, git_tree, make_target

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Failed, Queue
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import apply_series

# Of the kernel's, the part that asks git.
SCRIPT = r"""
exit 2 if grep { $_ eq "" || /=$/ } @ARGV;
exit 0 if "@ARGV" =~ /UNKNOWN_COMMIT_ID/;
local $/;
open(my $patch, "<", $ARGV[-1]);
my ($id) = <$patch> =~ /^Fixes: (\w+)/m;
exit 0 if system("git log -1 $id >/dev/null 2>&1") == 0;
print "WARNING:UNKNOWN_COMMIT_ID: Unknown commit id $id\n";
exit 1;
"""


def history(place: Path) -> str:
    """A repository whose tag has a parent; the parent's id."""
    git_tree(place, None, AFTER)
    (place / SOURCE).write_text(BEFORE)
    git(place, "commit", "-q", "-a", "-m", "x")
    git(place, "tag", "v0.1")
    return git(place, "rev-parse", "HEAD^").strip()


def fixes(tmp_path: Path, own: Path, commit: str) -> Queue:
    """A queue on the tree `own` whose patch fixes `commit`."""
    target = make_target(tmp_path / "queue")
    (patch,) = target.patches.glob("*.patch")
    patch.write_text(patch.read_text().replace("Because.", f'Because.\n\nFixes: {commit[:12]} ("x")'))
    tree = apply_series(target, prepare_base(target, own))
    script = tree.path / "scripts" / "checkpatch.pl"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    return Queue(target, tree, tree, tmp_path / "log")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()


def test_a_commit_of_the_history_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parent = history(tmp_path / "linux")
    queue = fixes(tmp_path, tmp_path / "linux", parent)
    linux._checkpatch(queue)
    linux.checkpatch(queue, queue.patches())  # as for a mail that is signed off
    assert "note:" not in capsys.readouterr().out


def test_a_commit_that_the_history_does_not_have_fails(tmp_path: Path) -> None:
    history(tmp_path / "linux")
    with pytest.raises(Failed, match="Unknown commit id 0123456789ab"):
        linux._checkpatch(fixes(tmp_path, tmp_path / "linux", "0123456789abcdef"))


def test_where_there_is_no_history_this_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history(tmp_path / "linux")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path / 'linux'}", str(shallow))
    linux._checkpatch(fixes(tmp_path, shallow, "0123456789abcdef"))
    assert "were not looked up" in capsys.readouterr().out
