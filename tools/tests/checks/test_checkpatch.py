"""checks/linux.py: the commits in Fixes: are looked up where the base has a history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, git, git_tree, make_target, shell

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Failed, Queue
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import apply_series

# The part of checkpatch that asks git.
SCRIPT = r"""
exit 2 if grep { $_ eq "" || /=$/ } @ARGV;
exit 0 if "@ARGV" =~ /UNKNOWN_COMMIT_ID/;
open(my $patch, "<", $ARGV[-1]);
my ($id) = join("", <$patch>) =~ /^Fixes: (\w+)/m;
exit 0 if system("git log -1 $id >/dev/null 2>&1") == 0;
print "WARNING:UNKNOWN_COMMIT_ID: Unknown commit id $id\n";
exit 1;
"""


def fixes(place: Path, own: Path, commit: str) -> Queue:
    """A queue on the tree `own` whose patch fixes `commit`."""
    place.mkdir()
    target = replace(make_target(place), name=place.name)
    (patch,) = target.patches.glob("*.patch")
    patch.write_text(patch.read_text().replace("Because.", f'Because.\n\nFixes: {commit[:12]} ("x")'))
    tree = apply_series(target, prepare_base(target, own))
    script = tree.path / "scripts" / "checkpatch.pl"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    return Queue(target, tree, place / "log")


def test_the_commits_in_fixes_are_looked_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linux_tree = git_tree(tmp_path / "linux", None, AFTER)
    shell(linux_tree, f"echo '{BEFORE.strip()}' >{SOURCE}; git commit -q -a -m x; git tag v0.1")
    shell(tmp_path, f"git clone -q --depth=1 file://{linux_tree} shallow")
    right = fixes(tmp_path / "right", linux_tree, git(linux_tree, "rev-parse", "HEAD^"))
    linux._checkpatch(right)
    linux.checkpatch(right, right.patches())  # as for a signed mail: nothing is ignored
    assert "note:" not in capsys.readouterr().out
    with pytest.raises(Failed, match="0123456789ab"):
        linux._checkpatch(fixes(tmp_path / "wrong", linux_tree, "0123456789abcdef"))
    linux._checkpatch(fixes(tmp_path / "unknown", tmp_path / "shallow", "0123456789abcdef"))
    assert "note:" in capsys.readouterr().out
