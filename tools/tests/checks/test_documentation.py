"""checks/documentation.py: new warnings of the documentation build fail, those of the base do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import committed, make_queue

from dmcrypt_inline.checks import documentation
from dmcrypt_inline.checks.checklist import Failed, Queue, Skipped

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
    monkeypatch.setattr(documentation, "TOOLS", tmp_path)
    monkeypatch.setattr("dmcrypt_inline.common.host.python_env", lambda _: tmp_path)
    (tmp_path / "targets" / "small").mkdir(parents=True)
    (tmp_path / "targets" / "small" / "sphinx.txt").write_text("")
    made = make_queue(tmp_path)
    for path, text in (("Documentation/dm/index.rst", ""), (TEXT, "BAD one\n"), ("Makefile", BUILD)):
        base = committed(made, path, text).applied().series
    tree = replace(made.applied(), base=base)
    return replace(made, apply=lambda: tree)


def test_new_warnings_fail(queue: Queue) -> None:
    with pytest.raises(Skipped):
        documentation._sphinx(queue)
    documentation._sphinx(committed(queue, TEXT, "\n\nBAD one\n"))
    with pytest.raises(Failed, match=r"^\S*text\.rst: WARNING: BAD two$"):
        documentation._sphinx(committed(queue, TEXT, "BAD one\nBAD two\n"))


def test_a_file_in_a_directory_without_an_index_is_built(queue: Queue) -> None:
    with pytest.raises(Failed, match="BAD two"):
        documentation._sphinx(committed(queue, "Documentation/dm/more/text.rst", "BAD two\n"))
