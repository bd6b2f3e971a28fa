"""am.py: a queue onto a tree of the user's, who keeps everything as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, git, git_tree, make_target, shell

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import am
from dmcrypt_inline.trees.selftests import IN_TREE
from dmcrypt_inline.trees.targets import Target

VERSION = "VERSION = 5\nPATCHLEVEL = 8\nSUBLEVEL = 0\nEXTRAVERSION = -rc2\n"


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Target]:
    """One target without the flags, and one that has them."""
    plain = make_target(tmp_path)
    fixed = replace(plain, name="fixed", tag="v0.2", blobs={SOURCE: "f" * 12}, has_flags=True)
    found = {"small": plain, "fixed": fixed}
    monkeypatch.setattr(am, "TARGETS", found)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    for number, (key, value) in enumerate({"user.name": "A User", "user.email": "user@host.example"}.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    return found


def own_tree(tmp_path: Path, text: str = BEFORE) -> Path:
    own = git_tree(tmp_path / "own", None, text)
    (own / "Makefile").write_text(VERSION)
    git(own, "commit", "-q", "-a", "-m", "a version")
    return own


def test_the_queue_is_on_a_new_branch_and_work_stays(tmp_path: Path, targets: dict[str, Target]) -> None:
    own = own_tree(tmp_path)
    (own / SOURCE).write_text("int version = 99; /* work */\n")
    (own / "staged.c").write_text("int staged;\n")
    git(own, "add", "staged.c")
    before = git(own, "status", "--porcelain", "--branch")
    lines = am.apply_queue("LINUX", own, None)
    assert "Linux 5.8.0-rc2" in lines[0]
    assert lines[1].strip() == "its files are those of v0.1"
    assert "1 patches for small are on the new branch dmcrypt-inline-small" in lines[2]
    assert git(own, "status", "--porcelain", "--branch") == before
    assert (own / SOURCE).read_text() == "int version = 99; /* work */\n"
    assert git(own, "show", f"dmcrypt-inline-small:{SOURCE}") == AFTER
    said = git(own, "log", "--format=%an|%cn|%s|%b", "HEAD..dmcrypt-inline-small").strip()
    assert said == "dmcrypt-inline|A User|dm crypt: bump the version|Because."
    am.apply_queue("LINUX", own, None)
    assert git(own, "rev-parse", "dmcrypt-inline-small-2^{tree}") == git(
        own, "rev-parse", "dmcrypt-inline-small^{tree}"
    )


@pytest.mark.parametrize("inside", ["drivers", "Documentation", ".git", "../bare"])
def test_any_directory_of_the_repository_stands_for_all_of_it(
    tmp_path: Path, targets: dict[str, Target], inside: str
) -> None:
    own = own_tree(tmp_path)
    shell(own, "mkdir Documentation; git clone -q --bare . ../bare")
    am.apply_queue("LINUX", own / inside, None)
    assert git(own / inside, "show", f"dmcrypt-inline-small:{SOURCE}") == AFTER


def test_a_patch_that_is_there_already_makes_no_empty_commit(tmp_path: Path, targets: dict[str, Target]) -> None:
    own = own_tree(tmp_path)
    (own / SOURCE).write_text(AFTER)
    git(own, "commit", "-q", "-a", "-m", "the same")
    with pytest.raises(UserError, match=r"0001-dm-crypt-bump-the-version\.patch, changes nothing in .*/own "):
        am.apply_queue("LINUX", own, None)
    assert "dmcrypt-inline" not in git(own, "branch", "--list")


def test_where_it_does_not_apply_nothing_changes(tmp_path: Path, targets: dict[str, Target]) -> None:
    own = own_tree(tmp_path, "int version = 14;\n")
    with pytest.raises(UserError) as caught:
        am.apply_queue("LINUX", own, None)
    message = str(caught.value)
    assert message.startswith("patch 1, 0001-dm-crypt-bump-the-version.patch, does not apply to")
    assert "(Linux 5.8.0-rc2)" in message
    assert f"{SOURCE}" in message
    assert "the nearest target is small, v0.1" in message
    assert git(own, "branch", "--list").split() == ["*", git(own, "branch", "--show-current").strip()]
    assert git(own, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("version", "tag"),
    [("5.15.1", "v6.1"), ("6.1", "v6.1"), ("6.6.9", "v6.12"), ("6.12.40", "v6.12"), ("6.13", "v7.3"), ("7.9", "v7.3")],
)
def test_of_several_with_the_flags_the_oldest_that_is_no_older_is_nearest(
    tmp_path: Path, targets: dict[str, Target], version: str, tag: str
) -> None:
    for other in ("v7.3", "v6.12", "v6.1"):
        targets[other] = replace(targets["fixed"], name=other, tag=other)
    del targets["fixed"]
    own = own_tree(tmp_path, "/* no_read_workqueue */\n")
    numbers = dict(zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split(".")))
    (own / "Makefile").write_text("".join(f"{name} = {number}\n" for name, number in numbers.items()))
    git(own, "commit", "-q", "-a", "-m", "another version")
    with pytest.raises(UserError, match=rf"the nearest target is {tag}, {tag} of"):
        am.apply_queue("LINUX", own, None)
    git(own, "rm", "-q", "Makefile")
    git(own, "commit", "-q", "-m", "no version")
    with pytest.raises(UserError, match=r"the nearest target is v7\.3, v7\.3 of"):
        am.apply_queue("LINUX", own, None)


def test_a_named_target_is_taken_if_it_is_for_such_a_tree(tmp_path: Path, targets: dict[str, Target]) -> None:
    own = own_tree(tmp_path, "/* no_read_workqueue */\n")
    nearest = r"the nearest target is fixed, v0\.2 of a test, which is taken without TARGET="
    with pytest.raises(UserError, match=nearest):
        am.apply_queue("LINUX", own, targets["small"])
    with pytest.raises(UserError, match=r"TARGET=small is for CRYPTSETUP=, .*LINUX=.*\n.*one of: small, fixed"):
        am.apply_queue("LINUX", own, replace(targets["small"], variable="CRYPTSETUP"))
    assert "dmcrypt-inline" not in git(own, "branch", "--list")
    shell(own, f"echo '{BEFORE.strip()}' >{SOURCE}; git commit -q -a -m before")
    am.apply_queue("LINUX", own, targets["fixed"])
    assert "dmcrypt-inline-fixed" in git(own, "branch", "--list")


def cryptsetup_tree(tmp_path: Path, header: str = "") -> Path:
    own = own_tree(tmp_path)
    (own / "configure.ac").write_text("AC_INIT([cryptsetup],[2.3.3])\n")
    (own / am.LIBRARY).parent.mkdir()
    (own / am.LIBRARY).write_text(header)
    git(own, "add", "-A")
    git(own, "commit", "-q", "-m", "cryptsetup")
    return own


@pytest.fixture
def of_cryptsetup(targets: dict[str, Target]) -> Target:
    targets["tool"] = replace(targets["small"], name="tool", variable="CRYPTSETUP", tag="v2.3.3", source="")
    return targets["tool"]


def test_cryptsetup_gets_its_own_queue(tmp_path: Path, of_cryptsetup: Target) -> None:
    own = cryptsetup_tree(tmp_path)
    lines = am.apply_queue("CRYPTSETUP", own, None)
    assert "cryptsetup 2.3.3" in lines[0]
    assert lines[1].strip() == "its files are those of v2.3.3"
    assert git(own, "show", f"dmcrypt-inline-tool:{SOURCE}") == AFTER


@pytest.mark.parametrize("named", [False, True])
def test_a_cryptsetup_that_has_the_flags_is_refused(tmp_path: Path, of_cryptsetup: Target, named: bool) -> None:
    own = cryptsetup_tree(tmp_path, "#define CRYPT_ACTIVATE_NO_READ_WORKQUEUE (1 << 24)\n")
    with pytest.raises(UserError, match=r"\(cryptsetup 2\.3\.3\) has CRYPT_ACTIVATE_NO_READ_WORKQUEUE already"):
        am.apply_queue("CRYPTSETUP", own, of_cryptsetup if named else None)


def test_what_is_no_cryptsetup_is_refused(tmp_path: Path, of_cryptsetup: Target) -> None:
    with pytest.raises(UserError, match=r"has no lib/libcryptsetup\.h: it is no cryptsetup tree"):
        am.apply_queue("CRYPTSETUP", own_tree(tmp_path), None)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("rm -rf .git", "is no git repository"),
        ("rm -rf ../own", "is no git repository"),
        ("rm -rf .git; git init -q", "has no commit yet"),
        (f"git rm -q --cached {SOURCE}; git commit -q -m less", "it is no kernel tree"),
        (f"mkdir -p {IN_TREE}; cp Makefile {IN_TREE}; git add -A; git commit -q -m tests", "a queue of ours is in it"),
    ],
)
def test_what_is_no_tree_for_a_queue_is_refused(
    tmp_path: Path, targets: dict[str, Target], script: str, why: str
) -> None:
    own = own_tree(tmp_path)
    shell(own, script)
    with pytest.raises(UserError, match=why):
        am.apply_queue("LINUX", own, None)
