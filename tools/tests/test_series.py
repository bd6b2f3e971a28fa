"""Series files, and build/<target>/tree through its life."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, git, kernel_tree, make_target

from dmcrypt_inline.base import prepare_base
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.series import Tree, apply_series, parse_series, read_series
from dmcrypt_inline.targets import Target

PATCH = "0001-dm-crypt-bump-the-version.patch"


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
    monkeypatch.setattr("dmcrypt_inline.paths.BUILD", tmp_path / "elsewhere")
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


def test_an_interrupted_application_is_redone(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path)
    (tree.path / ".git" / ".complete").unlink()  # the stamp comes last
    (tree.path / SOURCE).write_text("half")
    (tree.path / ".git" / "index.lock").touch()
    assert make(target, tmp_path) == tree
    assert (tree.path / SOURCE).read_text() == AFTER


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
