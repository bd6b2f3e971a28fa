"""LINUX=: what is taken, what is refused, and that the user's tree is only read."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, git, git_tree, kernel_tree, make_target

from dmcrypt_inline.base import prepare_base
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.targets import Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return make_target(tmp_path)


def contents(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text(errors="replace") for p in place.rglob("*") if p.is_file()}


def test_a_git_tree_with_the_tag_is_taken_at_the_tag(target: Target, tmp_path: Path) -> None:
    linux = git_tree(tmp_path / "linux", target.tag)
    (linux / SOURCE).write_text(AFTER)
    git(linux, "commit", "-q", "-a", "-m", "later")
    before = contents(linux)
    base = prepare_base(target, linux)
    assert git(base.repo, "show", f"base:{SOURCE}") == BEFORE
    assert git(base.repo, "rev-list", "--count", "base") == "1\n"
    assert contents(linux) == before


def test_a_git_tree_without_the_tag_is_taken_when_head_has_the_file(target: Target, tmp_path: Path) -> None:
    base = prepare_base(target, git_tree(tmp_path / "linux", None))
    assert git(base.repo, "show", f"base:{SOURCE}") == BEFORE


def test_a_source_directory_is_taken_without_build_products(target: Target, tmp_path: Path) -> None:
    linux = kernel_tree(tmp_path / "linux")
    before = contents(linux)
    base = prepare_base(target, linux)
    assert git(base.repo, "ls-tree", "-r", "--name-only", "base").split() == [".gitignore", "Makefile", SOURCE]
    assert contents(linux) == before


def test_the_same_files_give_the_same_commit(target: Target, tmp_path: Path) -> None:
    one = prepare_base(target, kernel_tree(tmp_path / "one"))
    two = prepare_base(target, git_tree(tmp_path / "two", target.tag))
    git(tmp_path / "two", "status")
    assert one.commit == two.commit


def test_a_changed_source_directory_is_taken_anew(target: Target, tmp_path: Path) -> None:
    linux = kernel_tree(tmp_path / "linux")
    one = prepare_base(target, linux)
    (linux / "Makefile").write_text("all: more\n")
    two = prepare_base(target, linux)
    assert one.commit != two.commit
    assert not one.repo.exists()


@pytest.mark.parametrize("form", ["missing", "file", "empty", "other", "wrong", "git_without_tag"])
def test_what_is_not_the_base_is_refused(target: Target, tmp_path: Path, form: str) -> None:
    linux = tmp_path / "linux"
    expected = {
        "missing": "does not exist",
        "file": "is a file, not a directory",
        "empty": "is an empty directory",
        "other": f"{SOURCE} is missing",
        "wrong": f"{SOURCE} has git blob id ",
        "git_without_tag": f"{SOURCE} has git blob id ",
    }[form]
    if form == "file":
        linux.touch()
    elif form == "empty":
        linux.mkdir()
    elif form == "other":
        linux.mkdir()
        (linux / "README").touch()
    elif form == "wrong":
        kernel_tree(linux, AFTER)
    elif form == "git_without_tag":
        git_tree(linux, None, AFTER)
    with pytest.raises(UserError) as caught:
        prepare_base(target, linux)
    text = str(caught.value)
    assert f"LINUX={linux}" in text
    assert expected in text
    assert target.tag in text


def test_a_tag_of_that_name_on_another_tree_is_refused(target: Target, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=target.blobs[SOURCE]):
        prepare_base(target, git_tree(tmp_path / "linux", target.tag, AFTER))


def test_a_broken_repository_is_refused_in_git_s_words(target: Target, tmp_path: Path) -> None:
    linux = kernel_tree(tmp_path / "linux")
    (linux / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(UserError, match="not a git repository"):
        prepare_base(target, linux)
