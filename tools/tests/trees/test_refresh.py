from dataclasses import dataclass
from pathlib import Path

import pytest
from small import PATCH, SOURCE, git, git_tree, make_target, shell

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import selftests
from dmcrypt_inline.trees.base import BaseTree, prepare_base
from dmcrypt_inline.trees.refresh import write_back
from dmcrypt_inline.trees.series import apply_series, check_out_all
from dmcrypt_inline.trees.targets import Target


@dataclass(frozen=True)
class Edited:
    target: Target
    base: BaseTree
    tree: Path

    def write_back(self) -> list[str]:
        return write_back(self.target, self.base)

    def commit(self, message: str, *, amend: bool = False) -> None:
        git(self.tree, "add", "-A")
        git(self.tree, "commit", "-q", "-m", message, *(["--amend"] if amend else []))

    def queue(self) -> dict[str, str]:
        place = self.target.patches
        return {path.name: path.read_text() for path in (*place.glob("*.patch"), self.target.series)}


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edited:
    directory = tmp_path / "selftests"
    directory.mkdir()
    monkeypatch.setattr(selftests, "SELFTESTS", directory)
    target = make_target(tmp_path)
    base = prepare_base(target, git_tree(tmp_path / "linux", None))
    return Edited(target, base, check_out_all(apply_series(target, base)).path)


def test_a_commit_becomes_a_patch_and_others_stay(edited: Edited) -> None:
    before = edited.queue()
    assert edited.write_back() == ["the queue of small is what the tree has"]
    assert edited.queue() == before
    (edited.tree / "Makefile").write_text("all: it\n")
    edited.commit("dm crypt: make it\n\nBecause it was not.")
    head = git(edited.tree, "rev-parse", "HEAD").strip()
    [line] = edited.write_back()
    assert line.endswith("0002-dm-crypt-make-it.patch")
    after = edited.queue()
    assert after[PATCH] == before[PATCH]
    assert after["series"] == f"{PATCH}\n0002-dm-crypt-make-it.patch\n"
    assert "Because it was not.\n---\n" in after["0002-dm-crypt-make-it.patch"]
    assert git(edited.tree, "show", "HEAD:Makefile") == "all: it\n"
    assert head in git(edited.tree, "for-each-ref", "refs/dmcrypt-inline/set-aside")
    for turn in (1, 2):
        (edited.tree / "Makefile").write_text(f"all: {turn}\n")
        edited.commit("dm crypt: make it\n\nBecause.", amend=True)
        edited.write_back()
        assert f"+all: {turn}" in edited.queue()["0002-dm-crypt-make-it.patch"]


MORE = "echo 'all: it' >Makefile; git commit -q -a"  # and a message
IN_PART = "printf 'From: a\\nSubject: b\\n\\nc\\n' >$PATCHES/0002-no.patch; echo 0002-no.patch >>$PATCHES/../series"


@pytest.mark.parametrize(
    "done",
    [
        f"echo more >>{SOURCE}",
        "echo more >new.c",
        "GIT_SEQUENCE_EDITOR='echo break >>' git rebase -q -i base",
        "git checkout -q --orphan mine; git commit -q -m all; git branch -M mine queue",
        f"git checkout -q -b mine base; {MORE} -m x; git checkout -q queue; git merge -q -m y mine",
        "git reset -q --hard base",
        IN_PART,  # a queue whose first patch applies
        "sed -i s/Because./Why./ $PATCHES/*.patch; " + MORE + " -m more",
    ],
)
def test_work_that_would_be_lost_is_not_touched(edited: Edited, done: str) -> None:
    shell(edited.tree, f"PATCHES={edited.target.patches}; {done}")
    if done == IN_PART:
        with pytest.raises(UserError):
            apply_series(edited.target, edited.base)
    queue, head = edited.queue(), git(edited.tree, "rev-parse", "HEAD")
    status = git(edited.tree, "status", "--porcelain")
    with pytest.raises(UserError):
        edited.write_back()
    assert edited.queue() == queue
    assert git(edited.tree, "rev-parse", "HEAD") == head
    assert git(edited.tree, "status", "--porcelain") == status


def test_another_base_is_refused(edited: Edited, tmp_path: Path) -> None:
    other = git_tree(tmp_path / "other", None)
    shell(other, "echo all: other >Makefile; git commit -q -a -m other")
    with pytest.raises(UserError):
        write_back(edited.target, prepare_base(edited.target, other))


def test_commits_that_make_another_queue_are_kept(edited: Edited) -> None:
    diff = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+int new;\n"
    (edited.tree / "Makefile").write_text("all: it\n")
    edited.commit(f"dm crypt: make it\n\nBecause of this, which git am takes for a part of the patch:\n\n{diff}")
    head = git(edited.tree, "rev-parse", "HEAD").strip()
    with pytest.raises(UserError):
        edited.write_back()
    assert head in git(edited.tree, "for-each-ref", "refs/dmcrypt-inline/set-aside")


def test_selftests_are_edited_in_their_directory(edited: Edited) -> None:
    tests, directory = edited.tree / selftests.IN_TREE, selftests.SELFTESTS
    shell(edited.tree, f"mkdir -p {tests}; echo '#!/bin/sh' >{tests}/test.sh; chmod +x {tests}/test.sh")
    (edited.tree / "Makefile").write_text("all: tests\n")
    edited.commit("selftests: add tests\n\nBecause.")
    git(edited.tree, "commit", "-q", "--amend", "--no-edit", "--author", "A Person <person@example.org>")
    with pytest.raises(UserError):
        edited.write_back()
    shell(edited.tree, f"cp -a {tests}/test.sh {directory}")
    edited.write_back()
    (directory / "test.sh").rename(directory / "other.sh")
    edited.write_back()
    patch = edited.queue()["0002-selftests-add-tests.patch"]
    assert f"{selftests.IN_TREE}/other.sh" in patch
    assert "test.sh" not in patch
    assert "new file mode 100755" in patch
    for text in ("From: A Person <person@example.org>", "Subject: [PATCH] selftests: add tests", "\nBecause.\n---\n"):
        assert text in patch
    assert "+all: tests" in patch
    shell(edited.tree, f"echo more >>{SOURCE}; git commit -q -a -m 'dm crypt: add more'")
    edited.write_back()
    assert "more\n" in git(edited.tree, "show", f"series:{SOURCE}")
    assert edited.write_back() == ["the queue of small is what the tree has"]
