"""Series files, and build/<target>/tree through its life."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import AFTER, BEFORE, SOURCE, git, kernel_tree, make_target

from dmcrypt_inline.common import gitrepo
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import build_dir
from dmcrypt_inline.common.run import Completed
from dmcrypt_inline.trees import series
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import Tree, apply_series, parse_series, read_series
from dmcrypt_inline.trees.targets import Target

PATCH = "0001-dm-crypt-bump-the-version.patch"
PAUSE = {"GIT_SEQUENCE_EDITOR": "echo break >>", **gitrepo.IDENTITY, **gitrepo.ISOLATED}


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return make_target(tmp_path)


def make(target: Target, tmp_path: Path) -> Tree:
    return apply_series(target, prepare_base(target, kernel_tree(tmp_path / "linux")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a.patch\nb.patch\n", ["a.patch", "b.patch"]),
        ("# all\n\n  a.patch  # why\nb.patch -p1\n", ["a.patch", "b.patch"]),
        ("a.patch", ["a.patch"]),
    ],
)
def test_parse_series(text: str, expected: list[str]) -> None:
    assert parse_series(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it names no patch"),
        (f"{PATCH}\nother.patch\n", "other.patch is in the series, but not in"),
        ("# nothing\n", f"{PATCH} is in .*, but not in the series"),
        (f"{PATCH}\n{PATCH}\n", f"{PATCH} is named twice"),
    ],
)
def test_a_series_that_disagrees_is_refused(target: Target, text: str, expected: str) -> None:
    target.series.write_text(text)
    with pytest.raises(UserError, match=expected):
        read_series(target)


def test_a_missing_series_is_refused(target: Target) -> None:
    target.series.unlink()
    with pytest.raises(UserError, match="no series file"):
        read_series(target)


def test_the_queue_is_applied_one_commit_a_patch(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path)
    assert git(tree.path, "show", f"base:{SOURCE}") == BEFORE
    assert git(tree.path, "show", f"series:{SOURCE}") == AFTER
    assert (tree.path / SOURCE).read_text() == AFTER
    assert len(tree.commits) == 1
    assert tree.commits[-1] == tree.series


def test_the_ids_are_the_same_on_every_machine(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make(target, tmp_path)
    git(first.path, "checkout", "-q", "base")
    monkeypatch.setattr("dmcrypt_inline.common.paths.BUILD", tmp_path / "elsewhere")
    assert make(target, tmp_path).commits == first.commits


def test_an_unchanged_queue_is_not_applied_again(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path)
    before = (tree.path / SOURCE).stat().st_mtime_ns
    assert make(target, tmp_path) == tree
    assert (tree.path / SOURCE).stat().st_mtime_ns == before


def test_a_changed_queue_is_applied_anew(target: Target, tmp_path: Path) -> None:
    first = make(target, tmp_path)
    patch = target.patches / PATCH
    patch.write_text(patch.read_text().replace("+int version = 22;", "+int version = 23;"))
    second = make(target, tmp_path)
    assert (second.path / SOURCE).read_text() == "int version = 23;\n"
    assert second.queue_hash != first.queue_hash


def test_a_patch_that_does_not_apply_is_named_and_can_be_mended(target: Target, tmp_path: Path) -> None:
    patch = target.patches / PATCH
    good = patch.read_text()
    patch.write_text(good.replace("-int version = 21;", "-int version = 20;"))
    with pytest.raises(UserError, match="does not apply to the base") as caught:
        make(target, tmp_path)
    assert "dm crypt: bump the version" in str(caught.value)
    patch.write_text(good)
    assert (make(target, tmp_path).path / SOURCE).read_text() == AFTER


def break_patch(target: Target) -> str:
    """Make the patch one that does not apply; returns the good one."""
    patch = target.patches / PATCH
    good = patch.read_text()
    patch.write_text(good.replace("-int version = 21;", "-int version = 20;"))
    return good


def put_aside(message: str) -> None:
    """Do as a refusal says."""
    for what in ("put them aside: commit them, ([^;]*);", "drop them: (.*)"):
        told = re.search(what, message)
        assert told
        subprocess.run(["sh", "-c", told[1]], check=True)


@pytest.mark.parametrize("first", [True, False])
def test_work_in_a_tree_that_the_queue_did_not_fit_is_kept(target: Target, tmp_path: Path, first: bool) -> None:
    if not first:
        make(target, tmp_path)
    good = break_patch(target)
    with pytest.raises(UserError, match="now has the patches before this one") as caught:
        make(target, tmp_path)
    assert "git am --continue" not in str(caught.value)  # of an am that was undone
    tree = build_dir(target.name) / "tree"
    (tree / SOURCE).write_text("mine\n")
    git(tree, "commit", "-q", "-a", "-m", "mine")
    (tree / "mine.c").write_text("mine\n")
    (target.patches / PATCH).write_text(good)
    with pytest.raises(UserError, match=r"holds changes of yours(?s:.)*mine\.c"):
        make(target, tmp_path)
    (tree / "mine.c").unlink()
    with pytest.raises(UserError, match="commits") as caught:
        make(target, tmp_path)
    assert "make refresh" not in str(caught.value)  # the queue would be what applied, and no more
    put_aside(str(caught.value))
    assert (make(target, tmp_path).path / SOURCE).read_text() == AFTER
    assert git(tree, "show", f"my-head:{SOURCE}") == "mine\n"


def test_an_interrupted_application_is_redone_and_what_is_there_is_kept(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(repo: Path, *words: str | Path, **options: Any) -> Completed:
        if "am" in words:
            raise KeyboardInterrupt
        return gitrepo.git(repo, *words, **options)

    before = make(target, tmp_path)
    tree, good = before.path, break_patch(target)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(series, "git", interrupted)
        make(target, tmp_path)
    (target.patches / PATCH).write_text(good)
    (tree / ".git" / "index.lock").touch()
    (tree / ".git" / "rebase-apply").mkdir()
    (tree / SOURCE).write_text("half\n")
    (tree / "mine.c").write_text("mine\n")
    assert make(target, tmp_path) == before
    assert (tree / SOURCE).read_text() == AFTER
    assert git(tree, "status", "--porcelain") == ""
    kept = re.search(r"kept there as (\S+)", capsys.readouterr().out)
    assert kept
    assert git(tree, "show", f"{kept[1]}:{SOURCE}") == "half\n"
    assert git(tree, "show", f"{kept[1]}:mine.c") == "mine\n"
    assert git(tree, "rev-parse", f"{kept[1]}^") == git(tree, "rev-parse", "base")


def commit_on_queue(tree: Path) -> None:
    (tree / SOURCE).write_text("mine\n")
    git(tree, "commit", "-q", "-a", "-m", "mine")
    git(tree, "checkout", "-q", "series")


def bisect(tree: Path) -> None:
    git(tree, "bisect", "start")


def rebase(tree: Path) -> None:
    subprocess.run(["git", "-C", tree, "rebase", "-q", "-i", "base"], env={**os.environ, **PAUSE}, check=True)


def hide_a_file(tree: Path) -> None:
    git(tree, "config", "status.showUntrackedFiles", "no")
    (tree / "mine.c").write_text("mine\n")


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (commit_on_queue, "holds changes of yours: commits"),
        (bisect, "in the middle of .*BISECT_LOG"),
        (rebase, "in the middle of .*rebase-merge"),
        (hide_a_file, r"holds changes of yours: files(?s:.)*mine\.c"),
    ],
)
def test_less_visible_work_is_not_thrown_away_either(
    target: Target, tmp_path: Path, work: Callable[[Path], None], why: str
) -> None:
    tree = make(target, tmp_path).path
    work(tree)
    refs = git(tree, "show-ref", "--head")
    break_patch(target)
    with pytest.raises(UserError, match=why):
        make(target, tmp_path)
    assert git(tree, "show-ref", "--head") == refs


def test_commits_of_head_and_of_the_branch_can_both_be_put_aside(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path).path
    commit_on_queue(tree)
    (tree / SOURCE).write_text("elsewhere\n")
    git(tree, "commit", "-q", "-a", "-m", "elsewhere")
    with pytest.raises(UserError) as caught:
        make(target, tmp_path)
    put_aside(str(caught.value))
    assert (make(target, tmp_path).path / SOURCE).read_text() == AFTER
    assert git(tree, "show", f"my-head:{SOURCE}") == "elsewhere\n"
    assert git(tree, "show", f"my-queue:{SOURCE}") == "mine\n"


@pytest.mark.parametrize("change", ["edit", "new file", "commit", "tag"])
@pytest.mark.parametrize("queue_changed", [False, True])
def test_the_user_s_work_is_never_thrown_away(target: Target, tmp_path: Path, change: str, queue_changed: bool) -> None:
    tree = make(target, tmp_path)
    if change == "new file":
        (tree.path / "mine.c").write_text("mine\n")
    elif change == "tag":
        git(tree.path, "tag", "-f", "series", "base")
    else:
        (tree.path / SOURCE).write_text("mine\n")
    if change == "commit":
        git(tree.path, "commit", "-q", "-a", "-m", "mine")
    if queue_changed:
        patch = target.patches / PATCH
        patch.write_text(patch.read_text().replace("+int version = 22;", "+int version = 23;"))
    with pytest.raises(UserError, match="holds changes of yours"):
        make(target, tmp_path)
    if change in ("edit", "commit"):
        assert (tree.path / SOURCE).read_text() == "mine\n"
