"""selftests.py: the directory and the patch that adds it, on a repository of a few files."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from small import git, git_tree, make_target

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import REPO
from dmcrypt_inline.trees import selftests
from dmcrypt_inline.trees.series import FORMAT, Tree


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of one test and one helper, in place of the project's."""
    place = tmp_path / "dm-crypt"
    place.mkdir()
    (place / "test.sh").write_text("#!/bin/sh\n")
    (place / "test.sh").chmod(0o755)
    (place / "helper.sh").write_text("true\n")
    (place / "helper.sh").chmod(0o644)
    monkeypatch.setattr(selftests, "SELFTESTS", place)
    return place


def tree_with(place: Path, files: dict[str, str]) -> Tree:
    """A queue of one patch, which adds `files` to the selftests, and the tree it gives."""
    (place / "target").mkdir()
    target = make_target(place / "target")
    repo = git_tree(place / "repo", "base")
    for name, content in files.items():
        path = repo / selftests.IN_TREE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755 if name == "test.sh" else 0o644)
    (repo / "Makefile").write_text("all: tests\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "selftests: add tests\n\nBecause.", "--author", "A Person <person@example.org>")
    head = git(repo, "rev-parse", "HEAD").strip()
    patch = target.patches / "0001-dm-crypt-bump-the-version.patch"
    patch.write_text(git(repo, "format-patch", *FORMAT, *selftests.CONTEXT, "--stdout", "-1", head))
    base = git(repo, "rev-parse", "base").strip()
    return Tree(replace(target, name="small"), repo, base, head, (head,), "", "a test")


def test_each_difference_is_named(tmp_path: Path, directory: Path) -> None:
    tree = tree_with(tmp_path, {"test.sh": "#!/bin/bash\n", "old.sh": "true\n"})
    found = selftests.differences(tree)
    assert [line.removeprefix(selftests.IN_TREE + "/").partition(" ")[0] for line in found] == [
        "helper.sh",
        "old.sh",
        "test.sh",
    ]
    (directory / "test.sh").write_text("#!/bin/bash\n")
    (directory / "test.sh").chmod(0o644)
    assert any("test.sh differs" in line for line in selftests.differences(tree))


def test_refresh_keeps_message_and_other_files(tmp_path: Path, directory: Path) -> None:
    tree = tree_with(tmp_path, {"test.sh": "#!/bin/bash\n", "old.sh": "true\n"})
    patch = tree.target.patches / "0001-dm-crypt-bump-the-version.patch"
    text = selftests.refresh(tree).read_text()
    assert "\nBecause.\n---\n" in text
    assert "From: A Person <person@example.org>" in text
    assert "Subject: [PATCH] selftests: add tests" in text
    assert "all: tests" in text
    assert f"{selftests.IN_TREE}/helper.sh" in text
    assert "old.sh" not in text
    git(tree.path, "reset", "-q", "--hard", "base")
    git(tree.path, "am", "-q", str(patch))
    head = git(tree.path, "rev-parse", "HEAD").strip()
    assert selftests.differences(replace(tree, series=head)) == []


def test_a_queue_without_selftests_is_refused(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(UserError, match="does not add"):
        selftests.refresh(tree_with(tmp_path, {}))


def test_cases_of_asynchronous_ciphers_come_last() -> None:
    script = f"""
. {REPO}/selftests/functional/common.sh
run_cases() {{ printf '%s\\n' "$@"; }}
CASES=("even sync-a" "odd async-b" "even sync-c")
run
"""
    output = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert output[-3:] == ["even sync-a", "even sync-c", "odd async-b"]
