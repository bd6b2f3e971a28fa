from dataclasses import replace
from pathlib import Path

import pytest
from small import AFTER, BEFORE, PATCH, SOURCE, git, git_tree, make_target, shell

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import am
from dmcrypt_inline.trees.targets import Target


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Target]:
    """One target, and git's settings of a user."""
    found = {"small": make_target(tmp_path)}
    monkeypatch.setattr(am, "TARGETS", found)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    for number, (key, value) in enumerate({"user.name": "A User", "user.email": "user@host.example"}.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    return found


def own_tree(tmp_path: Path, text: str = BEFORE, version: str = "5.8.0") -> Path:
    own = git_tree(tmp_path / "own", None, text)
    numbers = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split("."))
    (own / "Makefile").write_text("".join(f"{name} = {number}\n" for name, number in numbers))
    git(own, "commit", "-q", "-a", "-m", "a version")
    return own


def test_the_queue_is_on_a_new_branch_and_work_stays(tmp_path: Path, targets: dict[str, Target]) -> None:
    own = own_tree(tmp_path)
    (own / SOURCE).write_text("int version = 99; /* work */\n")
    (own / "staged.c").write_text("int staged;\n")
    git(own, "add", "staged.c")
    before = git(own, "status", "--porcelain", "--branch"), (own / ".git" / "config").read_text()
    am.apply_queue("LINUX", own, None)
    assert (git(own, "status", "--porcelain", "--branch"), (own / ".git" / "config").read_text()) == before
    assert (own / SOURCE).read_text() == "int version = 99; /* work */\n"
    assert git(own, "show", f"dmcrypt-inline-small:{SOURCE}") == AFTER
    said = git(own, "log", "--format=%an|%cn|%s|%b", "HEAD..dmcrypt-inline-small").strip()
    assert said == "dmcrypt-inline|A User|dm crypt: bump the version|Because."
    assert len(git(own, "worktree", "list").splitlines()) == 1
    am.apply_queue("LINUX", own, None)
    assert git(own, "show", f"dmcrypt-inline-small-2:{SOURCE}") == AFTER


def branches(own: Path) -> list[str]:
    return git(own, "for-each-ref", "--format=%(refname:short)", "refs/heads/dmcrypt-inline*").split()


def test_a_patch_that_is_in_the_tree_is_skipped(tmp_path: Path, targets: dict[str, Target]) -> None:
    own = own_tree(tmp_path)
    shell(own, f"echo '{AFTER.strip()}' >{SOURCE}; git commit -q -a -m 'the same'")
    shell(tmp_path / "work", "echo other >other; git add other; git commit -q -m other; git format-patch -q -1 -o ..")
    shell(tmp_path, f"mv 0001-other.patch patches; printf '{PATCH}\n0001-other.patch\n' >series")
    am.apply_queue("LINUX", own, None)
    assert git(own, "log", "--format=%s", "HEAD..dmcrypt-inline-small") == "other\n"


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ("6.1", ["v6.1", "v6.12", "v7.3"]),
        ("6.6.9", ["v6.12", "v6.1", "v7.3"]),
        ("6.13", ["v7.3", "v6.12", "v6.1"]),
        ("", ["v7.3", "v6.12", "v6.1"]),
    ],
)
def test_the_nearest_target_is_tried_first(
    tmp_path: Path, targets: dict[str, Target], version: str, order: list[str]
) -> None:
    small = targets.pop("small")
    for other in ("v7.3", "v6.12", "v6.1"):
        targets[other] = replace(small, name=other, tag=other)
    own = own_tree(tmp_path, version=version)
    assert [target.tag for target in am.candidates_for("LINUX", own)] == order


def test_the_first_queue_that_applies_is_taken(tmp_path: Path, targets: dict[str, Target]) -> None:
    small = targets.pop("small")
    targets["broken"] = replace(small, name="broken", tag="v0.2", directory=tmp_path / "broken")
    targets["tool"] = replace(small, name="tool", tag="v0.3", variable="CRYPTSETUP")
    targets["small"] = small
    shell(
        tmp_path,
        "mkdir broken; cp -r series patches broken; sed -i 's/-int version = 21/-int version = 30/' broken/*/*",
    )
    am.apply_queue("LINUX", own_tree(tmp_path), None)
    assert branches(tmp_path / "own") == ["dmcrypt-inline-small"]


def test_a_named_target_is_taken_if_it_is_for_such_a_tree(tmp_path: Path, targets: dict[str, Target]) -> None:
    own = own_tree(tmp_path)
    with pytest.raises(UserError):
        am.apply_queue("LINUX", own, replace(targets["small"], variable="CRYPTSETUP"))
    assert branches(own) == []
    am.apply_queue("LINUX", own, replace(targets["small"], name="stacked", below="small"))
    assert branches(own) == ["dmcrypt-inline-stacked"]


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf ../own",
        "rm -rf .git; git init -q",
        f"git rm -q --cached {SOURCE}; git commit -q -m less",
        f"echo '{AFTER.strip()}' >{SOURCE}; git commit -q -a -m 'the same'",
        f"echo 'int version = 14;' >{SOURCE}; git commit -q -a -m 'no patch applies'",
    ],
)
def test_a_tree_that_no_queue_is_for_stays_as_it_is(tmp_path: Path, targets: dict[str, Target], script: str) -> None:
    own = own_tree(tmp_path)
    shell(own, script)
    with pytest.raises(UserError):
        am.apply_queue("LINUX", own, None)
    if own.exists():
        assert branches(own) == []
        assert len(git(own, "worktree", "list").splitlines()) == 1
