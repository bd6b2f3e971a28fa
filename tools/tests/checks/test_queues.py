import sys
from dataclasses import replace
from pathlib import Path

import pytest
from small import MISSPELLED, PATCH, applied, findings, findings_of, git, git_tree, make_target

from dmcrypt_inline.checks import posting, queues
from dmcrypt_inline.checks.checklist import Check, Failed, Queue, Skipped, run_checks
from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.testing import mutants
from dmcrypt_inline.testing.files import kselftests
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import apply_series
from dmcrypt_inline.trees.targets import Target

COVER = "cover-letter.txt"
LETTER = """\
From: A <a@host.example>
Subject: [PATCH 0/1] dm crypt: x

 1  dm crypt: bump
    the version
 Not
 tested: x
"""
SIGNED = "Signed-off-by: A <a@host.example>\n"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target with a cover letter; its author is in the history of the repository."""
    monkeypatch.setattr(queues, "REPO", tmp_path / "work")
    made = make_target(tmp_path)
    made.cover.write_text(LETTER)
    return made


@pytest.fixture
def queue(target: Target, tmp_path: Path) -> Queue:
    return applied(target, tmp_path)


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("patches_and_cover_letter_are_spelled_right", PATCH, "Because.", f"To {MISSPELLED}."),
        ("patches_and_cover_letter_are_spelled_right", PATCH, "+int version", f"+int {MISSPELLED}"),
        ("patches_and_cover_letter_are_spelled_right", COVER, "Not\n", f"{MISSPELLED}\n"),
        ("index_lines_are_true", PATCH, "index ", "index 0"),
        ("quilt_pushes_the_series", PATCH, "+int version = 22;", "+int version = 23;"),
        ("patches_are_proper_mails", PATCH, "From: dmcrypt-inline", "From: somebody"),
        ("patches_are_proper_mails", PATCH, "Because.\n", f"Because.\n\n{SIGNED}"),
        ("patches_are_proper_mails", PATCH, "bump the version", "bump the version" + " again" * 10),
        ("patches_are_proper_mails", PATCH, "bump the version", "bump the version."),
        ("patches_are_proper_mails", PATCH, "Because.", "Because. TODO: tell."),
        ("patches_are_proper_mails", PATCH, "bump the", "WIP the"),
        ("cover_letter_lists_the_patches", PATCH, "bump the version", "raise it"),
        ("cover_letter_lists_the_patches", COVER, "dm crypt: x", "*** SUBJECT HERE ***"),
        ("cover_letter_lists_the_patches", COVER, "Not\n tested", "Tested"),
        ("cover_letter_lists_the_patches", COVER, " 1  dm", f"{SIGNED} 1  dm"),
    ],
)
def test_a_defect_in_a_queue_fails(queue: Queue, name: str, file: str, old: str, new: str) -> None:
    checks = queues.queue_checks(queue, Path(sys.prefix))
    edit(queue.target.patches / PATCH, "\n---\n", "\n---\nChanges since v1: TODO\n\n")
    assert not findings_of(name, checks)
    edit(queue.target.cover if file == COVER else queue.target.patches / file, old, new)
    found = findings_of(name, checks).splitlines()
    assert found if name == "quilt_pushes_the_series" else len(found) == 1  # quilt's has the differences


def test_a_mutant_that_does_not_apply_fails(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "MUTANTS", tmp_path)
    mutant = tmp_path / queue.target.name / "wrong.patch"
    mutant.parent.mkdir()
    made = git(queue.applied().path, "diff", "HEAD", "HEAD~")
    mutant.write_text(f"Trips: {Path(kselftests()[0]).name}\n---\n{made}")
    assert not findings(lambda: queues._mutants(queue))
    edit(mutant, "-int version = 22;", "-int version = 20;")
    assert findings(lambda: queues._mutants(queue))


def test_removed_lines_may_be_spelled_wrong(queue: Queue) -> None:
    edit(queue.target.patches / PATCH, "-int version", f"-int {MISSPELLED}")
    queues._spelling(queue, Path(sys.prefix))


def test_a_queue_that_does_not_apply_fails(target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(target.patches / PATCH, "-int version = 21;", "-int version = 20;")
    base = prepare_base(target, git_tree(tmp_path / "linux", None))
    queue = Queue(target, lambda: apply_series(target, base))
    assert run_checks(queues.mail_checks(queue, Path(sys.prefix))) == Counts(passed=4, failed=1, skipped=1)
    assert "not ok queue_applies_with_git_am" in capsys.readouterr().out


def test_the_author_is_unknown_outside_a_repository(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "REPO", queue.target.patches)
    with pytest.raises(Skipped):
        queues._mails(queue)


def test_mails_that_git_am_applies_otherwise_fail(queue: Queue, target: Target) -> None:
    target = replace(target, variable="CRYPTSETUP", lists=("list@host.example",))
    tree = replace(queue.applied(), target=target)
    queue = replace(queue, target=target, apply=lambda: tree)
    posting._patch_mails(queue)
    # git am takes a diff in the message for the patch.
    more = "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+int new;\n"
    git(tree.path, "commit", "-q", "--amend", "-m", f"dm crypt: x\n\nA diff:\n\n{more}")
    head = git(tree.path, "rev-parse", "HEAD").strip()
    other = replace(tree, series=head, commits=(head,))
    assert findings(lambda: posting._patch_mails(replace(queue, apply=lambda: other)))


def raises(error: Exception) -> Check:
    def call() -> None:
        raise error

    return Check(str(error), call, slow=True)


def test_each_result_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [Check("a", lambda: None), *map(raises, (Failed("b\nc"), UserError("d"), Skipped("e")))]
    assert run_checks(checks) == Counts(passed=1, failed=2, skipped=1)
    assert "    b\n    c\n" in capsys.readouterr().out
    assert run_checks(checks, quick=True) == Counts(passed=1, failed=0, skipped=0)
    assert run_checks([Check("a", lambda: None, needs=("no-such-program",))]) == Counts(0, 1, 0)
