"""check_source.py: each reader of source finds what it is there for, and not what the base had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import SOURCE, git, kernel_tree, make_target

from dmcrypt_inline import check_source
from dmcrypt_inline.base import prepare_base
from dmcrypt_inline.checks import Failed, Queue, Skipped
from dmcrypt_inline.series import Tree, apply_series

# As those of the kernel are written: a rule, and a script that says where it fits.
SCRIPT = """\
/// A return value that is no truth.
// Options: --no-includes
virtual report

@r depends on report@
position p;
@@
return@p 7;

@script:python depends on report@
p << r.p;
@@
coccilib.report.print_report(p[0], "WARNING: seven is no truth")
"""
BEFORE = "int before(void)\n{\n\treturn 7;\n}\n"
AFTER = "\nint after(void)\n{\n\treturn 7;\n}\n"


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    target = make_target(tmp_path)
    tree = apply_series(target, prepare_base(target, kernel_tree(tmp_path / "linux")))
    return Queue(target, tree, tree, tmp_path / "log")


def committed(queue: Queue, path: str, text: str) -> Queue:
    """The queue with one commit more, which gives the file `path` this text."""
    tree = queue.applied()
    (tree.path / path).parent.mkdir(parents=True, exist_ok=True)
    (tree.path / path).write_text(text)
    git(tree.path, "add", "-A")
    git(tree.path, "commit", "-q", "-m", "more")
    made: Tree = replace(tree, series=git(tree.path, "rev-parse", "HEAD").strip())
    return replace(queue, tree=made, exact=made)


def test_coccinelle_finds_what_is_new(queue: Queue) -> None:
    with pytest.raises(Skipped, match="no semantic patches"):
        check_source._coccinelle(queue)
    scripts = queue.applied().path / "scripts" / "coccinelle"
    scripts.mkdir(parents=True)
    (scripts / "seven.cocci").write_text(SCRIPT)
    (scripts / "other.cocci").write_text(SCRIPT.replace("script:python", "script:ocaml"))
    old = committed(queue, SOURCE, BEFORE)
    with pytest.raises(Failed, match=r"seven\.cocci: .*dm-crypt\.c:3.*seven is no truth"):
        check_source._coccinelle(old)
    # The same in the base, at another line.
    assert check_source._said("a.c:12:3-4: lock on line 11") == check_source._said("b/a.c:2:3-4: lock on line 1")
    base = committed(queue, SOURCE, "\n\n" + BEFORE).applied().series
    tree = replace(committed(queue, SOURCE, BEFORE).applied(), base=base)
    check_source._coccinelle(replace(queue, tree=tree))


def test_kernel_doc_has_the_last_word(queue: Queue) -> None:
    with pytest.raises(Skipped, match="no kernel-doc"):
        check_source._kernel_doc(queue)
    script = queue.applied().path / "scripts" / "kernel-doc"
    script.parent.mkdir(exist_ok=True)
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    check_source._kernel_doc(queue)
    script.write_text('#!/bin/sh\necho "$2:1: warning: no description" >&2\n')
    with pytest.raises(Failed, match="no description"):
        check_source._kernel_doc(queue)


def test_documentation_is_read(queue: Queue) -> None:
    check_source._documentation(committed(queue, "Documentation/good.rst", "Title\n=====\n\nText.\n"))
    with pytest.raises(Failed, match=r"Documentation/bad\.rst: .*bad\.rst:2: .*Title underline too short"):
        check_source._documentation(committed(queue, "Documentation/bad.rst", "A longer title\n=====\n\nText.\n"))
