"""Every check can fail: each is given what it must not let pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from small import git_tree, kernel_tree, make_target

from dmcrypt_inline import check, lint
from dmcrypt_inline.base import prepare_base
from dmcrypt_inline.checks import Check, Failed, Skipped, run_checks
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.results import Counts
from dmcrypt_inline.series import apply_series
from dmcrypt_inline.targets import Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return make_target(tmp_path)


@pytest.fixture
def queue(target: Target, tmp_path: Path) -> check.Queue:
    tree = apply_series(target, prepare_base(target, kernel_tree(tmp_path / "linux")))
    return check.Queue(target, tree, tmp_path / "log")


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


def test_index_lines(queue: check.Queue) -> None:
    check._index_lines(queue)
    edit(queue.target, "index ", "index 0")
    with pytest.raises(Failed, match="is not what this patch does"):
        check._index_lines(queue)


def test_author(queue: check.Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "REPO", tmp_path / "work")
    check._mails(queue)
    edit(queue.target, "From: dmcrypt-inline", "From: somebody")
    with pytest.raises(Failed, match="From: is somebody"):
        check._mails(queue)


def test_a_missing_cover_letter(queue: check.Queue) -> None:
    with pytest.raises(Failed, match="there is no"):
        check._cover(queue)


def test_what_needs_the_tree_is_skipped_without_it(target: Target, tmp_path: Path) -> None:
    nothing = check.Queue(target, None, tmp_path / "log")
    for call in (check._index_lines, check._checkpatch, check._each_builds):
        with pytest.raises(Skipped):
            call(nothing)


def test_a_queue_that_does_not_apply_fails(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "source_checks", lambda *_: [])
    edit(target, "-int version = 21;", "-int version = 20;")
    counts = check.check(target, prepare_base(target, kernel_tree(tmp_path / "linux")), tmp_path)
    assert "not ok queue_applies_with_git_am" in capsys.readouterr().out
    assert counts.skipped == 3


def test_checkpatch_s_verdict_counts(queue: check.Queue) -> None:
    assert queue.tree is not None
    script = queue.tree.path / "scripts" / "checkpatch.pl"
    script.parent.mkdir()
    script.write_text("exit 0;\n")
    check._checkpatch(queue)
    script.write_text('print "CHECK:SPACING: no\\n"; exit 1;\n')
    with pytest.raises(Failed, match="CHECK:SPACING"):
        check._checkpatch(queue)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a few files in place of ours."""
    place = git_tree(tmp_path / "repository", None)
    monkeypatch.setattr(lint, "REPO", place)
    return place


def test_sources_are_what_is_tracked_or_to_be(repository: Path) -> None:
    (repository / "new.sh").write_text("echo\n")
    (repository / "ignored.o").touch()
    assert [path.name for path in lint.sources()] == [".gitignore", "Makefile", "dm-crypt.c", "new.sh"]


def test_scripts_are_found_by_suffix_or_first_line(repository: Path) -> None:
    (repository / "a").write_text("#!/bin/sh\n")
    (repository / "b").write_text("#!/usr/bin/env bash\n")
    (repository / "c").write_text("#!/usr/bin/env python3\n")
    (repository / "d.sh").write_text("\n")
    (repository / "e.py").write_text("\n")
    assert [path.name for path in lint.shell_sources()] == ["a", "b", "d.sh"]
    assert [path.name for path in lint.python_sources()] == ["c", "e.py"]


def test_shell_mistakes_fail(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(Skipped):
        lint._shellcheck(tmp_path / "log")
    (repository / "a.sh").write_text("#!/bin/sh\nrm $1\n")
    if not Path("/usr/bin/shellcheck").exists():
        pytest.skip("shellcheck is not installed")
    with pytest.raises(Failed, match="SC2086"):
        lint._shellcheck(tmp_path / "log")


def test_a_linter_that_complains_fails(tmp_path: Path) -> None:
    lint._silent(["true"], tmp_path / "log")
    with pytest.raises(Failed, match="bad"):
        lint._silent(["sh", "-c", "echo bad; exit 1"], tmp_path / "log")


def test_spelling_mistakes_fail(repository: Path, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    lint._codespell(tools, tmp_path / "log")
    (repository / "a").write_text("rec" + "ieve\n")
    with pytest.raises(Failed, match="receive"):
        lint._codespell(tools, tmp_path / "log")


def test_a_registry_s_host_fails(repository: Path, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    lint._no_hosts(tools, tmp_path / "log")
    from pip._internal.models.index import PyPI  # noqa: PLC0415  (the name must not be written here)

    (repository / "a").write_text(f"see https://{PyPI.netloc}/simple\n")
    with pytest.raises(Failed, match="a:1: "):
        lint._no_hosts(tools, tmp_path / "log")


def test_a_path_of_this_machine_fails(repository: Path) -> None:
    lint._no_paths()
    (repository / "a").write_text(f"cd {repository}/tools\n")
    with pytest.raises(Failed, match="a:1: "):
        lint._no_paths()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("cd /src/x", True),
        ("'/src'", True),
        ("LINUX=/src", True),
        ("/usr/src/linux", False),
        ("./src", False),
        ("/srcs", False),
    ],
)
def test_find_words(tmp_path: Path, line: str, found: bool) -> None:
    (tmp_path / "file").write_text(line + "\n")
    assert bool(lint.find_words(["/src"], [tmp_path / "file"], not_after="./-")) == found


def test_authors_come_from_the_history(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "REPO", target.series.parent / "work")
    assert check.known_authors(tmp_path / "log") == ["dmcrypt-inline <dmcrypt-inline@localhost>"]
