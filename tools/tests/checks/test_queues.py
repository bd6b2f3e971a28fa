"""checks/queues.py and posting.py: each check fails on the defect that it looks for."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from small import MISSPELLED, SOURCE, applied, git, git_tree, make_target

from dmcrypt_inline.checks import posting, queues
from dmcrypt_inline.checks.checklist import Failed, Queue, Skipped
from dmcrypt_inline.common import gitrepo
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.targets import Target

COVER = "From: A <a@host.example>\nSubject: [PATCH 0/1] dm crypt: x\n\n 1  dm crypt: bump the version\n"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return make_target(tmp_path)


@pytest.fixture
def queue(target: Target, tmp_path: Path) -> Queue:
    return applied(target, tmp_path)


def edit(target: Target, old: str, new: str) -> None:
    (patch,) = target.patches.glob("*.patch")
    assert old in patch.read_text()
    patch.write_text(patch.read_text().replace(old, new))


def test_a_queue_that_does_not_apply_fails(target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(target, "-int version = 21;", "-int version = 20;")
    base = prepare_base(target, git_tree(tmp_path / "linux", None))
    counts = queues.check(target, base, Path(sys.prefix), quick=False)
    printed = capsys.readouterr().out
    assert "not ok queue_applies_with_git_am" in printed
    assert counts.skipped == len(re.findall("^skip .*: the queue does not apply$", printed, re.M))


def test_wrong_index_lines_fail(queue: Queue) -> None:
    queues._index_lines(queue)
    edit(queue.target, "index ", "index 0")
    with pytest.raises(Failed):
        queues._index_lines(queue)


def test_an_unknown_author_and_an_empty_message_fail(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gitrepo, "REPO", tmp_path / "work")
    queues._mails(queue)
    edit(queue.target, "From: dmcrypt-inline", "From: somebody")
    with pytest.raises(Failed, match="somebody"):
        queues._mails(queue)
    monkeypatch.setattr(queues, "known_authors", lambda _: [])
    with pytest.raises(Skipped):
        queues._mails(queue)
    edit(queue.target, "Because.\n", "")
    with pytest.raises(Failed, match=r"^0001-dm-crypt-bump-the-version\.patch: "):
        queues._mails(queue)


def test_whitespace_errors_fail(queue: Queue, target: Target, tmp_path: Path) -> None:
    queues._whitespace(queue)
    edit(target, "+int version = 22;", "+int version = 22; ")
    with pytest.raises(Failed, match="trailing whitespace"):
        queues._whitespace(applied(target, tmp_path))


def test_a_series_that_quilt_applies_otherwise_fails(queue: Queue, target: Target) -> None:
    posting._quilt(queue)
    edit(target, "+int version = 22;", "+int version = 23;")
    with pytest.raises(Failed):
        posting._quilt(queue)
    edit(target, "-int version = 21;", "-int version = 20;")
    with pytest.raises(UserError, match="quilt"):
        posting._quilt(queue)


def test_mails_that_git_am_applies_otherwise_fail(
    queue: Queue, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.cover.write_text(COVER)
    target = replace(target, fragments={}, lists=("list@host.example",))
    tree = replace(queue.applied(), target=target)
    queue = replace(queue, target=target, tree=tree)
    posting._patch_mails(queue)
    # git am takes a diff in the message for the patch.
    more = "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+int new;\n"
    git(tree.path, "commit", "-q", "--amend", "-m", f"dm crypt: x\n\nA diff:\n\n{more}")
    head = git(tree.path, "rev-parse", "HEAD").strip()
    with pytest.raises(Failed):
        posting._patch_mails(replace(queue, tree=replace(tree, series=head, commits=(head,))))
    monkeypatch.setattr(posting, "SENDER", "nobody at all")
    with pytest.raises(UserError):
        posting._patch_mails(queue)


def test_missing_abi_numbers_fail(queue: Queue, target: Target) -> None:
    posting._abi(queue)
    numbers = {SOURCE: ("version = 22", "version = 23"), "missing.h": ("1 << 24",)}
    with pytest.raises(Failed, match=rf"^{SOURCE}: .* version = 23\nmissing\.h: .* 1 << 24$"):
        posting._abi(replace(queue, target=replace(target, abi=numbers)))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("Because.", f"To {MISSPELLED}.", True),
        ("+int version = 22;", f"+int {MISSPELLED} = 22;", True),
        ("-int version = 21;", f"-int {MISSPELLED} = 21;", False),
        ("@@ -1 +1 @@", f"@@ -1 +1 @@ {MISSPELLED}", False),
    ],
)
def test_spelling_mistakes_fail_except_in_quotes(queue: Queue, old: str, new: str, found: bool) -> None:
    edit(queue.target, old, new)
    with pytest.raises(Failed, match="receive") if found else nullcontext():
        queues._spelling(queue, Path(sys.prefix))


def test_spelling_mistakes_in_the_cover_letter_fail(queue: Queue) -> None:
    queue.target.cover.write_text(f"to {MISSPELLED}\n")
    with pytest.raises(Failed, match=r"cover-letter\.txt:1"):
        queues._spelling(queue, Path(sys.prefix))


def test_a_missing_cover_letter_or_patch_in_it_fails(queue: Queue) -> None:
    with pytest.raises(Failed):
        queues._cover(queue)
    queue.target.cover.write_text(COVER.replace("bump", "raise") + "\nNot tested: anything\n")
    with pytest.raises(Failed, match=r"^[^\n]*dm crypt: bump the version$"):
        queues._cover(queue)
