import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, applied, git, git_tree, kernel_tree, make_target, shell

from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import cache_dir
from dmcrypt_inline.trees.base import prepare_base, stacked_base
from dmcrypt_inline.trees.targets import Package, Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return make_target(tmp_path)


def contents(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_git_tree_with_the_tag_is_taken_at_the_tag(target: Target, tmp_path: Path) -> None:
    linux = git_tree(tmp_path / "linux", target.tag)
    (linux / SOURCE).write_text(AFTER)
    git(linux, "commit", "-q", "-a", "-m", "later")
    before = contents(linux)
    base = prepare_base(target, linux)
    assert git(base.repo, "show", f"base:{SOURCE}") == BEFORE
    assert git(base.repo, "rev-list", "--count", "base") == "1\n"
    assert contents(linux) == before
    with pytest.raises(UserError):  # every file that the target names must be the right one
        prepare_base(replace(target, blobs={**target.blobs, "Makefile": "0" * 12}), linux)


@pytest.mark.parametrize(
    "script",
    [
        "",
        "cp -r right linux; rm -rf linux/.git",
        "cp -r other linux",
        "cp -r other linux; git -C linux tag v0.1",
    ],
)
def test_a_tree_that_is_not_the_base_is_refused(target: Target, tmp_path: Path, script: str) -> None:
    git_tree(tmp_path / "other", None, AFTER)
    git_tree(tmp_path / "right", None)
    prepare_base(target, tmp_path / "right")
    shell(tmp_path, script)
    with pytest.raises(UserError):
        prepare_base(target, tmp_path / "linux")


def test_a_tree_is_for_the_targets_whose_files_it_has(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Path | None] = []
    monkeypatch.setattr("dmcrypt_inline.commands.request.prepare_base", lambda _, own: taken.append(own))
    newer = replace(target, name="newer", tag="v0.2", blobs={SOURCE: text_id(AFTER)})
    linux = git_tree(tmp_path / "linux", None)
    for name, each in ((None, target), (None, newer), ("newer", newer)):
        Request(name, {"LINUX": linux}).base(each)
    assert taken == [linux, None, linux]


def text_id(text: str) -> str:
    return hashlib.sha1(b"blob %d\0" % len(text) + text.encode()).hexdigest()[:12]


def test_the_embedded_base_of_a_source_package(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_tree(tmp_path / "small-0.3", newer := "int version = 23;\n")
    place = cache_dir() / "packages" / "small_2:0.3-1"
    place.mkdir(parents=True)
    tarball = place / "small_0.3.orig.tar.xz"
    subprocess.run(["tar", "-cJf", tarball, "-C", tmp_path, "small-0.3"], check=True)
    monkeypatch.setattr("dmcrypt_inline.trees.targets.DATA", tmp_path / "data")
    patch = tmp_path / "data" / "small" / "base.patch"
    patch.parent.mkdir(parents=True)
    patch.write_text(f"Why.\n\n--- a/{SOURCE}\n+++ b/{SOURCE}\n@@ -1 +1 @@\n-{newer}+{AFTER}")
    right = {SOURCE: text_id(AFTER)}
    packaged = replace(
        target, variable="CRYPTSETUP", package=Package("small", "small", "2:0.3-1"), package_blobs=right, tracked=()
    )
    with pytest.raises(UserError):
        prepare_base(replace(packaged, package_blobs={}), None)
    base = prepare_base(packaged, None)
    assert git(base.repo, "show", f"base:{SOURCE}") == AFTER
    assert git(base.repo, "ls-tree", "-r", "--name-only", "base").split() == [".gitignore", "Makefile", SOURCE]


def test_a_stacked_queue_starts_from_the_other_queue_s_tree(target: Target, tmp_path: Path) -> None:
    below = applied(target, tmp_path).applied()
    stacked = replace(target, name="stacked", blobs={}, below=target.name)
    base = stacked_base(stacked, below.path, "refs/tags/series")
    assert git(base.repo, "show", f"base:{SOURCE}") == AFTER
    assert git(base.repo, "rev-list", "--count", "base") == "1\n"
    assert base.taken is None
