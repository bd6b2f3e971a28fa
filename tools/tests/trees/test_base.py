"""LINUX= and packages: what is taken, what is refused, and that the user's tree is only read."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, applied, git, git_tree, kernel_tree, make_target, shell

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import cache_dir
from dmcrypt_inline.trees.base import own_tree, prepare_base, prepare_exact, stacked_base
from dmcrypt_inline.trees.targets import Target


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


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("", "does not exist"),
        ("touch linux", "is a file, not a directory"),
        ("mkdir linux", "is an empty directory"),
        ("mkdir linux; touch linux/README", f"{SOURCE} is missing"),
        ("cp -r other linux; rm -rf linux/.git", f"{SOURCE} has git blob id "),
        ("cp -r other linux", f"{SOURCE} has git blob id "),
        ("cp -r other linux; git -C linux tag v0.1", f"{SOURCE} has git blob id "),
        ("cp -r other linux; rm -rf linux/.git; echo gitdir: /nowhere >linux/.git", "not a git repository"),
    ],
)
def test_what_is_not_the_base_is_refused(target: Target, tmp_path: Path, script: str, why: str) -> None:
    git_tree(tmp_path / "other", None, AFTER)
    shell(tmp_path, script)
    with pytest.raises(UserError, match=f"LINUX={tmp_path}/linux") as caught:
        prepare_base(target, tmp_path / "linux")
    assert why in str(caught.value)


@pytest.mark.parametrize("form", ["directory", "git"])
def test_every_file_that_the_target_names_must_be_right(target: Target, tmp_path: Path, form: str) -> None:
    strict = replace(target, variable="CRYPTSETUP", blobs={**target.blobs, "Makefile": "0" * 12})
    make = kernel_tree if form == "directory" else lambda place: git_tree(place, target.tag)
    with pytest.raises(UserError, match=r"CRYPTSETUP=.* Makefile has git blob id"):
        prepare_base(strict, make(tmp_path / "own"))
    prepare_base(target, tmp_path / "own")


def test_a_tree_for_another_target_leaves_the_embedded_base(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = replace(target, name="newer", tag="v0.2", blobs={SOURCE: text_id(AFTER)})
    monkeypatch.setattr("dmcrypt_inline.trees.base.TARGETS", {"small": target, "newer": newer})
    own = {"LINUX": kernel_tree(tmp_path / "linux")}
    assert own_tree(target, own, named=False) == own["LINUX"]
    assert own_tree(newer, own, named=True) == own["LINUX"]
    assert capsys.readouterr().out == ""
    assert own_tree(newer, own, named=False) is None
    assert "is for small: newer has its embedded base" in capsys.readouterr().out
    nobody_s = {"LINUX": kernel_tree(tmp_path / "other", "int version = 0;\n")}
    assert own_tree(newer, nobody_s, named=False) == nobody_s["LINUX"]
    assert own_tree(newer, {}, named=False) is None


NEWER = "int version = 23;\n"


def text_id(text: str) -> str:
    """The blob id of a text, abbreviated."""
    return hashlib.sha1(b"blob %d\0" % len(text) + text.encode()).hexdigest()[:12]


@pytest.fixture
def packaged(target: Target, tmp_path: Path) -> Target:
    """The target with a source package in the cache: NEWER; base.patch makes it AFTER, exact.patch BEFORE."""
    kernel_tree(tmp_path / "small-0.3", NEWER)
    place = cache_dir() / "packages" / "small_2:0.3-1"
    place.mkdir(parents=True)
    tarball = place / target.recipe.tarball
    subprocess.run(["tar", "-cJf", tarball, "-C", tmp_path, "small-0.3"], check=True)
    hunk = f"--- a/{SOURCE}\n+++ b/{SOURCE}\n@@ -1 +1 @@\n-{NEWER}+"
    (tmp_path / "base.patch").write_text(f"Why.\n\n{hunk}{AFTER}")
    (tmp_path / "exact.patch").write_text(f"Why.\n\n{hunk}{BEFORE}")
    recipe = replace(
        target.recipe,
        package="small",
        version="2:0.3-1",
        source=True,
        blobs={SOURCE: text_id(AFTER)},
        exact=tmp_path / "exact.patch",
    )
    return replace(target, recipe=recipe)


def test_the_embedded_base_and_the_exact_files_of_a_source_package(packaged: Target) -> None:
    base = prepare_base(packaged, None)
    assert git(base.repo, "show", f"base:{SOURCE}") == AFTER
    assert git(base.repo, "ls-tree", "-r", "--name-only", "base").split() == [".gitignore", "Makefile", SOURCE]
    exact = prepare_exact(packaged, base)
    assert git(exact.repo, "show", f"base:{SOURCE}") == BEFORE
    assert git(exact.repo, "ls-tree", "-r", "--name-only", "base").split() == [SOURCE]


def test_a_base_that_has_the_tag_s_files_is_the_exact_one(packaged: Target, tmp_path: Path) -> None:
    base = prepare_base(packaged, kernel_tree(tmp_path / "own"))
    assert prepare_exact(packaged, base) is base


def test_a_base_that_needs_no_patch_says_which_version_it_is(target: Target, tmp_path: Path) -> None:
    kernel_tree(tmp_path / "deb" / "usr" / "src" / "small-0.3")
    (tmp_path / "deb" / "DEBIAN").mkdir()
    control = "Package: small\nVersion: 0.3.4-1\nArchitecture: all\nMaintainer: a test\nDescription: a test\n"
    (tmp_path / "deb" / "DEBIAN" / "control").write_text(control)
    tarball = "usr/src/small.tar.xz"
    subprocess.run(["tar", "-cJf", tmp_path / "deb" / tarball, "-C", tmp_path / "deb/usr/src", "small-0.3"], check=True)
    place = cache_dir() / "packages" / "small_newest"
    place.mkdir(parents=True)
    subprocess.run(["dpkg-deb", "-b", tmp_path / "deb", place / "small_0.3.4-1_all.deb"], check=True)
    recipe = replace(target.recipe, package="small", version="", tarball=tarball, patch=None)
    base = prepare_base(replace(target, recipe=recipe), None)
    assert base.origin == "small 0.3.4-1"
    assert git(base.repo, "show", f"base:{SOURCE}") == BEFORE


@pytest.mark.parametrize("patch", ["base.patch", "exact.patch"])
def test_a_recipe_that_does_not_do_its_work_is_refused(packaged: Target, tmp_path: Path, patch: str) -> None:
    (tmp_path / patch).write_text((tmp_path / patch).read_text().replace("+int version", "+int  version"))
    with pytest.raises(UserError, match=f"small 2:0.3-1 and {patch} is not the base of small: {SOURCE} has"):
        prepare_exact(packaged, prepare_base(packaged, None))


def test_a_stacked_queue_starts_from_the_other_queue_s_tree(target: Target, tmp_path: Path) -> None:
    below = applied(target, tmp_path).applied()
    stacked = replace(target, name="stacked", blobs={}, below=target.name)
    base = stacked_base(stacked, below.path, "refs/tags/series")
    assert git(base.repo, "show", f"base:{SOURCE}") == AFTER
    assert git(base.repo, "rev-list", "--count", "base") == "1\n"
    assert base.taken is None
