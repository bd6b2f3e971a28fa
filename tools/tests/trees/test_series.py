"""Series files, and build/<target>/tree through its life."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from small import AFTER, BEFORE, PATCH, SOURCE, git, kernel_tree, make_target, shell

from dmcrypt_inline.common import gitrepo
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import build_dir
from dmcrypt_inline.common.run import Completed
from dmcrypt_inline.trees import series
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import (
    Tree,
    apply_series,
    history_of,
    parse_series,
    read_series,
    whole,
    with_history,
)
from dmcrypt_inline.trees.targets import Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return make_target(tmp_path)


def make(target: Target, tmp_path: Path) -> Tree:
    return whole(apply_series(target, prepare_base(target, kernel_tree(tmp_path / "linux"))))


def test_few_files_are_checked_out_until_all_are_wanted(target: Target, tmp_path: Path) -> None:
    other = "drivers/md/dm-other.c"
    linux = kernel_tree(tmp_path / "linux")
    (linux / other).write_text("int other;\n")
    tree = apply_series(target, prepare_base(target, linux))
    assert (tree.path / "Makefile").exists()
    assert not (tree.path / other).exists()
    assert git(tree.path, "status", "--porcelain") == ""
    assert (whole(tree).path / other).read_text() == "int other;\n"
    assert git(tree.path, "status", "--porcelain") == ""


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
    target.series.unlink()
    with pytest.raises(UserError, match="no series file"):
        read_series(target)


def test_the_queue_is_applied_one_commit_a_patch(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make(target, tmp_path)
    assert git(tree.path, "show", f"base:{SOURCE}") == BEFORE
    assert git(tree.path, "show", f"series:{SOURCE}") == (tree.path / SOURCE).read_text() == AFTER
    assert tree.commits == (tree.series,)
    monkeypatch.setattr("dmcrypt_inline.common.paths.BUILD", tmp_path / "elsewhere")
    git(tree.path, "checkout", "-q", "base")
    assert make(target, tmp_path).commits == tree.commits  # the same ids on every machine


def test_a_queue_is_applied_anew_when_it_has_changed(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path)
    before = (tree.path / SOURCE).stat().st_mtime_ns
    assert make(target, tmp_path) == tree
    assert (tree.path / SOURCE).stat().st_mtime_ns == before
    patch = target.patches / PATCH
    patch.write_text(patch.read_text().replace("+int version = 22;", "+int version = 23;"))
    assert make(target, tmp_path).queue_hash != tree.queue_hash
    assert (tree.path / SOURCE).read_text() == "int version = 23;\n"


def test_a_patch_that_does_not_apply_is_named_and_can_be_mended(target: Target, tmp_path: Path) -> None:
    good = break_patch(target)
    with pytest.raises(UserError, match="does not apply to the base") as caught:
        make(target, tmp_path)
    assert "dm crypt: bump the version" in str(caught.value)
    (target.patches / PATCH).write_text(good)
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


COMMIT_ON_QUEUE = f"echo mine >{SOURCE}; git commit -q -a -m mine; git checkout -q series"


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (COMMIT_ON_QUEUE, "holds changes of yours: commits"),
        ("git bisect start", "in the middle of .*BISECT_LOG"),
        ("GIT_SEQUENCE_EDITOR='echo break >>' git rebase -q -i base", "in the middle of .*rebase-merge"),
        (
            "git config status.showUntrackedFiles no; echo mine >mine.c",
            r"holds changes of yours: files(?s:.)*mine\.c",
        ),
    ],
)
def test_less_visible_work_is_not_thrown_away_either(target: Target, tmp_path: Path, work: str, why: str) -> None:
    tree = make(target, tmp_path).path
    shell(tree, work)
    refs = git(tree, "show-ref", "--head")
    break_patch(target)
    with pytest.raises(UserError, match=why):
        make(target, tmp_path)
    assert git(tree, "show-ref", "--head") == refs


def test_commits_of_head_and_of_the_branch_can_both_be_put_aside(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path).path
    shell(tree, f"{COMMIT_ON_QUEUE}; echo elsewhere >{SOURCE}; git commit -q -a -m elsewhere")
    with pytest.raises(UserError) as caught:
        make(target, tmp_path)
    put_aside(str(caught.value))
    assert (make(target, tmp_path).path / SOURCE).read_text() == AFTER
    assert git(tree, "show", f"my-head:{SOURCE}") == "elsewhere\n"
    assert git(tree, "show", f"my-queue:{SOURCE}") == "mine\n"


@pytest.mark.parametrize(
    "work", ["echo mine >", "echo mine >mine.c; : ", "git commit -q --amend -m mine; : ", "git tag -f series base; : "]
)
@pytest.mark.parametrize("queue_changed", [False, True])
def test_the_user_s_work_is_never_thrown_away(target: Target, tmp_path: Path, work: str, queue_changed: bool) -> None:
    tree = make(target, tmp_path).path
    shell(tree, work + SOURCE)
    before = git(tree, "show-ref", "--head"), git(tree, "status", "--porcelain"), (tree / SOURCE).read_text()
    if queue_changed:
        break_patch(target)
    with pytest.raises(UserError, match="holds changes of yours"):
        make(target, tmp_path)
    assert before == (git(tree, "show-ref", "--head"), git(tree, "status", "--porcelain"), (tree / SOURCE).read_text())


MAIL = "From: A <a@host.example>\nSubject: [PATCH] a: b\n\nBecause.\n---\n"
STAT = " a/b.c | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
DIFF = "\ndiff --git a/a/b.c b/a/b.c\n--- a/a/b.c\n+++ b/a/b.c\n@@ -1 +1 @@\n-1\n+2\n---\n"


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        (STAT, ""),
        ("", ""),
        (f"v2: c | d\n\n{STAT}", "v2: c | d"),
        (f"v2: c\n - d\n\nv1: e\n---\n{STAT}", "v2: c\n - d\n\nv1: e"),
        (f"v2: an image\n\n a.png | Bin 0 -> 9 bytes\n{STAT}", "v2: an image"),
        ("v2: no diffstat\n", "v2: no diffstat"),
    ],
)
def test_history_is_what_git_did_not_write(below: str, expected: str) -> None:
    assert history_of(MAIL + below + DIFF) == expected


def test_history_is_put_below_the_message_once() -> None:
    once = with_history(MAIL + STAT + DIFF, "v2: c")
    assert once == f"{MAIL}v2: c\n\n{STAT}{DIFF}"
    assert with_history(once, "v2: c") == once
    assert history_of(with_history(once, "v1: d")) == "v1: d\n\nv2: c"
    assert with_history(once, "") == once
