"""checks/documentation.py: what the build of the documentation says of a patch counts, not what it said before."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from small import PATCH, committed, make_queue, undone

from dmcrypt_inline.checks import documentation
from dmcrypt_inline.checks.checklist import Failed, Queue, Skipped
from dmcrypt_inline.checks.documentation import HEARD

# Finds the link to nowhere, as every version of Sphinx does, and the word BAD.
BUILD = """\
htmldocs:
\t@test -z "$$SPHINXOPTS$(SPHINXOPTS)" && test -d Documentation/$(SPHINXDIRS)
\t@echo "WARNING: dot(1) not found"
\t@cd Documentation/$(SPHINXDIRS); grep -rn :doc: . | \\
\t\tsed "s|:.*|:9: WARNING: unknown document: '/no/such/document/as/this'|"
\t@cd Documentation/$(SPHINXDIRS); grep -rn BAD . | sed "s|^\\([^:]*\\):[0-9]*:|$(CURDIR)/\\1:3: WARNING: |"; true
\t@echo "build succeeded, $$(grep -r :doc: Documentation/$(SPHINXDIRS) | wc -l) warnings."
"""
TEXT = "Documentation/dm/text.rst"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue whose base has documentation, with something bad, and a build of it."""
    monkeypatch.setattr(documentation, "TOOLS", tmp_path)
    monkeypatch.setattr("dmcrypt_inline.common.host.python_env", lambda _: tmp_path)
    (tmp_path / "targets" / "small").mkdir(parents=True)
    (tmp_path / "targets" / "small" / "sphinx.txt").write_text("")
    made = make_queue(tmp_path)
    for path, text in (("Documentation/dm/index.rst", ""), (TEXT, "BAD one\n"), ("Makefile", BUILD)):
        base = committed(made, path, text).applied().series
    return replace(made, tree=replace(made.applied(), base=base))


def test_new_warnings_fail(queue: Queue) -> None:
    with pytest.raises(Skipped, match="nothing to read"):
        documentation._builds(queue)
    documentation._builds(committed(queue, TEXT, "\n\nBAD one\n"))
    with pytest.raises(Failed, match=rf"^{re.escape(PATCH)}: \S*text\.rst: WARNING: BAD two$"):
        documentation._builds(committed(queue, TEXT, "BAD one\nBAD two\n"))
    with pytest.raises(Failed, match="BAD two"):
        documentation._builds(undone(queue, TEXT, "BAD two\n"))  # each patch is built


def test_the_directory_above_is_built_where_a_file_s_own_has_no_contents(queue: Queue) -> None:
    with pytest.raises(Failed, match="BAD two"):
        documentation._builds(committed(queue, "Documentation/dm/more/text.rst", "BAD two\n"))


def test_a_build_that_says_nothing_fails(queue: Queue) -> None:
    silent = committed(queue, "Makefile", "htmldocs:\n\t@echo 'WARNING: no sphinx'\n").applied()
    deaf = replace(queue, tree=replace(queue.applied(), base=silent.series))
    with pytest.raises(Failed, match="does not report a link to nowhere\nWARNING: no sphinx"):
        documentation._builds(committed(deaf, TEXT, "fine\n"))
    assert HEARD.search("dm-crypt.rst:223: WARNING: unknown document: /no/such/document/as/this")  # as others word it


def test_a_target_whose_sphinx_is_not_known_fails(queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "targets" / "small" / "sphinx.txt").unlink()
    with pytest.raises(Failed, match=r"there is no \S*targets/small/sphinx\.txt"):
        documentation._builds(committed(queue, TEXT, "fine\n"))
