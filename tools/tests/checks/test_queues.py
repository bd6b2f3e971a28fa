"""Every check can fail: each is given what it must not let pass."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from small import AFTER, BEFORE, MISSPELLED, SOURCE, applied, git, kernel_tree, make_target

from dmcrypt_inline.checks import posting, queues
from dmcrypt_inline.checks.checklist import Check, Failed, Queue, Skipped, run_checks
from dmcrypt_inline.common import gitrepo
from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.targets import Target


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


def test_each_verdict_is_counted_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise Failed("this\nand that")

    def refuses() -> None:
        raise UserError("cannot")

    def skips() -> None:
        raise Skipped("not here")

    checks = [Check("a", lambda: None), Check("b", fails), Check("c", refuses), Check("d", skips)]
    assert run_checks(checks) == Counts(passed=1, failed=2, skipped=1)
    printed = capsys.readouterr().out
    assert printed == "ok a\nnot ok b\n    this\n    and that\nnot ok c\n    cannot\nskip d: not here\n"
    assert run_checks([checks[0], replace(checks[1], slow=True)], quick=True) == Counts(1, 0, 0)
    assert capsys.readouterr().out == "left to make check: b\nok a\n"


def test_index_lines(queue: Queue) -> None:
    queues._index_lines(replace(queue, tree=None))  # they are about the tag's files
    edit(queue.target, "index ", "index 0")
    with pytest.raises(Failed, match="is not what this patch does"):
        queues._index_lines(queue)


@pytest.mark.parametrize("text", [BEFORE, AFTER])
def test_the_queue_must_apply_to_the_tag_s_files_too(
    target: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    base = prepare_base(target, kernel_tree(tmp_path / "linux"))
    exact = prepare_base(replace(target, blobs={}), kernel_tree(tmp_path / "exact", text))
    monkeypatch.setattr(queues, "prepare_exact", lambda *_: exact)
    separate = replace(target, recipe=replace(target.recipe, exact=tmp_path / "exact.patch"))
    queues.check(separate, base, Path(sys.prefix), quick=False)
    printed = capsys.readouterr().out.splitlines()
    assert "ok queue_applies_with_git_am" in printed
    verdict = "ok" if text == BEFORE else "not ok"
    assert f"{verdict} queue_applies_to_the_files_of_v0.1" in printed


def test_author(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gitrepo, "REPO", tmp_path / "work")
    queues._mails(queue)
    edit(queue.target, "From: dmcrypt-inline", "From: somebody")
    with pytest.raises(Failed, match="From: is somebody"):
        queues._mails(queue)
    monkeypatch.setattr(queues, "known_authors", lambda _: [])
    with pytest.raises(Skipped, match="no git repository"):
        queues._mails(queue)
    edit(queue.target, "Because.\n", "")
    with pytest.raises(Failed, match=r"0001-dm-crypt-bump-the-version\.patch: it has no text that says why"):
        queues._mails(queue)


def test_whitespace(queue: Queue, target: Target, tmp_path: Path) -> None:
    queues._whitespace(queue)
    edit(target, "+int version = 22;", "+int version = 22; ")
    with pytest.raises(Failed, match="trailing whitespace"):
        queues._whitespace(applied(target, tmp_path))


def test_quilt(queue: Queue, target: Target) -> None:
    posting._quilt(queue)
    edit(target, "+int version = 22;", "+int version = 23;")
    with pytest.raises(Failed, match="does not give the tree"):
        posting._quilt(queue)
    edit(target, "-int version = 21;", "-int version = 20;")
    with pytest.raises(UserError, match="quilt"):
        posting._quilt(queue)


COVER = "From: A <a@host.example>\nSubject: [PATCH 0/1] dm crypt: x\n\n 1  dm crypt: bump the version\n"


def test_outbox(queue: Queue, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.cover.write_text(COVER)
    sendable = replace(queue, target=replace(target, fragments={}, lists=("list@host.example",)))
    trees = {name: replace(queue.applied(), target=sendable.target) for name in ("tree", "exact")}
    sendable = replace(sendable, tree=trees["tree"], exact=trees["exact"])
    posting._outbox(sendable)
    tree = sendable.applied_exactly()
    more = "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+int new;\n"
    git(
        tree.path,
        "commit",
        "-q",
        "--amend",
        "-m",
        f"dm crypt: x\n\nWhat git am takes for a patch:\n\n{more}",
    )
    head = git(tree.path, "rev-parse", "HEAD").strip()
    with pytest.raises(Failed, match="does not give the tree"):
        posting._outbox(replace(sendable, exact=replace(tree, series=head, commits=(head,))))
    monkeypatch.setattr(posting, "SENDER", "nobody at all")
    with pytest.raises(UserError, match="who sends"):
        posting._outbox(sendable)


def test_abi(queue: Queue, target: Target) -> None:
    posting._abi(queue)
    numbers = {SOURCE: ("version = 22", "version = 23"), "missing.h": ("1 << 24",)}
    with pytest.raises(Failed, match=rf"^{SOURCE}: it does not have: version = 23\nmissing\.h: it .* have: 1 << 24$"):
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
def test_spelling_of_what_is_ours(queue: Queue, old: str, new: str, found: bool) -> None:
    edit(queue.target, old, new)
    with pytest.raises(Failed, match="receive") if found else nullcontext():
        queues._spelling(queue, Path(sys.prefix))
    queue.target.cover.write_text(f"to {MISSPELLED}\n")
    with pytest.raises(Failed, match=r"cover-letter\.txt:1"):
        queues._spelling(queue, Path(sys.prefix))


def test_a_missing_cover_letter(queue: Queue) -> None:
    with pytest.raises(Failed, match="there is no"):
        queues._cover(queue)


def test_a_queue_that_does_not_apply_fails(target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(target, "-int version = 21;", "-int version = 20;")
    counts = queues.check(target, prepare_base(target, kernel_tree(tmp_path / "linux")), Path(sys.prefix), quick=False)
    assert "not ok queue_applies_with_git_am" in capsys.readouterr().out
    assert counts.skipped == 14
