from dataclasses import replace
from pathlib import Path

import pytest
from small import committed, findings, make_queue

from dmcrypt_inline.checks import documentation
from dmcrypt_inline.checks.checklist import Queue, Skipped

# A build that warns of the word BAD.
BUILD = """\
htmldocs:
\t@cd Documentation/$(SPHINXDIRS); grep -rn BAD . | sed "s|^\\([^:]*\\):[0-9]*:|$(CURDIR)/\\1:3: WARNING: |"; true
\t@echo "build succeeded, 2 warnings."
"""
TEXT = "Documentation/dm/text.rst"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue whose base has documentation with one warning, and a build of it."""
    monkeypatch.setattr("dmcrypt_inline.trees.targets.DATA", tmp_path / "targets")
    monkeypatch.setattr("dmcrypt_inline.common.host.python_env", lambda _: tmp_path)
    (tmp_path / "targets" / "small").mkdir(parents=True)
    (tmp_path / "targets" / "small" / "sphinx.txt").write_text("")
    made = make_queue(tmp_path)
    for path, text in (("Documentation/dm/index.rst", ""), (TEXT, "BAD one\n"), ("Makefile", BUILD)):
        base = committed(made, path, text).applied().series
    tree = replace(made.applied(), base=base, series=base)
    return replace(made, apply=lambda: tree)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (TEXT, "\n\nBAD one\n", ""),
        (TEXT, "BAD one\nBAD two\n", "./text.rst: WARNING: BAD two"),
    ],
)
def test_new_warnings_fail(queue: Queue, path: str, text: str, expected: str) -> None:
    assert findings(lambda: documentation._sphinx(committed(queue, path, text))) == expected


def test_a_queue_that_changes_no_documentation_is_skipped(queue: Queue) -> None:
    with pytest.raises(Skipped):
        documentation._sphinx(queue)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('echo "$2:1: warning: no structured comments found" >&2', ""),
        ('echo "$2:1: warning: no description" >&2', "dm-crypt.c:1: warning: no description"),
        ("echo broken; exit 1", "broken\n"),
    ],
)
def test_warnings_of_kernel_doc_fail(tmp_path: Path, line: str, expected: str) -> None:
    queue = make_queue(tmp_path)
    script = queue.applied().path / "scripts" / "kernel-doc"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(0o755)
    assert findings(lambda: documentation._kernel_doc(queue)) == expected
