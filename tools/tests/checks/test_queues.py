"""checks/queues.py and posting.py: each check fails on the defect that it looks for."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from small import MISSPELLED, SOURCE, applied, call_check, git, git_tree, make_target

from dmcrypt_inline.checks import posting, queues
from dmcrypt_inline.checks.checklist import Failed, Queue, Skipped, run_checks
from dmcrypt_inline.common import gitrepo
from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import apply_series
from dmcrypt_inline.trees.targets import TOOL, Target

COVER = "From: A <a@host.example>\nSubject: [PATCH 0/1] dm crypt: x\n\n 1  dm crypt: bump the version\n Not tested: x\n"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target with a cover letter; its author is in the history of the repository."""
    monkeypatch.setattr(gitrepo, "REPO", tmp_path / "work")
    made = make_target(tmp_path)
    made.cover.write_text(COVER)
    return made


@pytest.fixture
def queue(target: Target, tmp_path: Path) -> Queue:
    return applied(target, tmp_path)


def edit_patch(target: Target, old: str, new: str) -> None:
    (patch,) = target.patches.glob("*.patch")
    assert old in patch.read_text()
    patch.write_text(patch.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("patches_are_proper_mails", "From: dmcrypt-inline", "From: somebody", "somebody"),
        ("cover_letter_lists_the_patches", "bump the version", "raise it", "raise it"),
        ("patches_and_cover_letter_are_spelled_right", "Because.", f"To {MISSPELLED}.", "receive"),
        ("patches_and_cover_letter_are_spelled_right", "+int version", f"+int {MISSPELLED}", "receive"),
        ("patches_and_cover_letter_are_spelled_right", "-int version", f"-int {MISSPELLED}", ""),
        ("index_lines_are_true", "index ", "index 0", "0001"),
        ("quilt_pushes_the_series", "+int version = 22;", "+int version = 23;", "dm-crypt"),
        ("quilt_pushes_the_series", "-int version = 21;", "-int version = 20;", "quilt"),
    ],
)
def test_a_defect_in_a_patch_fails(queue: Queue, name: str, old: str, new: str, expected: str) -> None:
    checks = queues.queue_checks(queue, Path(sys.prefix))
    call_check(checks, name)
    edit_patch(queue.target, old, new)
    with pytest.raises((Failed, UserError), match=expected) if expected else nullcontext():
        call_check(checks, name)


def test_a_queue_that_does_not_apply_fails(target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_patch(target, "-int version = 21;", "-int version = 20;")
    base = prepare_base(target, git_tree(tmp_path / "linux", None))
    queue = Queue(target, lambda: apply_series(target, base))
    assert run_checks(queues.mail_checks(queue, Path(sys.prefix))) == Counts(passed=4, failed=1, skipped=2)
    assert "not ok queue_applies_with_git_am" in capsys.readouterr().out


def test_whitespace_errors_fail(target: Target, tmp_path: Path) -> None:
    edit_patch(target, "+int version = 22;", "+int version = 22; ")
    with pytest.raises(Failed, match="trailing whitespace"):
        queues._whitespace(applied(target, tmp_path))


def test_the_author_is_unknown_outside_a_repository(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "known_authors", lambda _: [])
    with pytest.raises(Skipped):
        queues._mails(queue)


def test_defects_in_the_cover_letter_fail(queue: Queue) -> None:
    queue.target.cover.write_text(f"to {MISSPELLED}\n")
    with pytest.raises(Failed, match=r"cover-letter\.txt:1"):
        queues._spelling(queue, Path(sys.prefix))
    queue.target.cover.unlink()
    with pytest.raises(Failed):
        queues._cover(queue)


def test_mails_that_git_am_applies_otherwise_fail(queue: Queue, target: Target) -> None:
    target = replace(target, kind=replace(TOOL, lists=("list@host.example",)))
    tree = replace(queue.applied(), target=target)
    queue = replace(queue, target=target, apply=lambda: tree)
    posting._patch_mails(queue)
    # git am takes a diff in the message for the patch.
    more = "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+int new;\n"
    git(tree.path, "commit", "-q", "--amend", "-m", f"dm crypt: x\n\nA diff:\n\n{more}")
    head = git(tree.path, "rev-parse", "HEAD").strip()
    other = replace(tree, series=head, commits=(head,))
    with pytest.raises(Failed):
        posting._patch_mails(replace(queue, apply=lambda: other))


def test_missing_abi_numbers_fail(queue: Queue, target: Target) -> None:
    numbers = {SOURCE: ("version = 22", "version = 23"), "missing.h": ("1 << 24",)}
    with pytest.raises(Failed, match=rf"^{SOURCE}: .* version = 23\nmissing\.h: .* 1 << 24$"):
        posting._abi(replace(queue, target=replace(target, abi=numbers)))
