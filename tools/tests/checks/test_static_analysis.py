"""checks/static_analysis.py: each checker reports new defects, and not those of the base."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from small import SOURCE, committed, make_queue

from dmcrypt_inline.checks import static_analysis
from dmcrypt_inline.checks.checklist import Failed, Queue, Skipped

# Written like those of the kernel: a rule, and a script that reports its matches.
SCRIPT = """\
/// Seven is not a truth value.
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
    return make_queue(tmp_path)


def semantic_patch(queue: Queue, name: str, text: str) -> None:
    scripts = queue.applied().path / "scripts" / "coccinelle"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / name).write_text(text)


def test_coccinelle_finds_new_defects(queue: Queue) -> None:
    with pytest.raises(Skipped):
        static_analysis._coccinelle(queue)
    semantic_patch(queue, "seven.cocci", SCRIPT)
    semantic_patch(queue, "other.cocci", SCRIPT.replace("script:python", "script:ocaml"))
    static_analysis._coccinelle(queue)
    with pytest.raises(Failed, match=r"^seven\.cocci: dm-crypt\.c:3\S* .*seven is no truth$"):
        static_analysis._coccinelle(committed(queue, SOURCE, BEFORE))
    # The same defect in the base, on another line, is not new; a second one is.
    base = committed(queue, SOURCE, "\n\n" + BEFORE).applied().series
    for text, lines in ((BEFORE, []), (BEFORE + AFTER, ["3", "8"])):
        tree = replace(committed(queue, SOURCE, text).applied(), base=base)
        try:
            static_analysis._coccinelle(replace(queue, tree=tree))
            found = []
        except Failed as failed:
            found = re.findall(r"dm-crypt\.c:(\d+)", str(failed))
        assert sorted(found) == lines


def test_lines_in_the_text_of_a_finding_do_not_count() -> None:
    without = static_analysis._without_lines
    assert without("a.c:12:3-4: lock on line 11") == without("b/a.c:2:3-4: lock on line 1")


def test_an_exception_in_coccinelle_fails(queue: Queue) -> None:
    semantic_patch(queue, "seven.cocci", SCRIPT.replace("coccilib.report.print_report", "no_such_name"))
    with pytest.raises(Failed, match=r"^seven\.cocci:(.|\n)*no_such_name"):
        static_analysis._coccinelle(committed(queue, SOURCE, BEFORE))


def kernel_doc(queue: Queue, script: str) -> None:
    path = queue.applied().path / "scripts" / "kernel-doc"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_warnings_of_kernel_doc_fail(queue: Queue) -> None:
    with pytest.raises(Skipped):
        static_analysis._kernel_doc(queue)
    kernel_doc(queue, "exit 1")
    with pytest.raises(Skipped):
        static_analysis._kernel_doc(queue)
    commented = committed(queue, SOURCE, "/**\n * f - g\n */\n")
    kernel_doc(queue, "exit 0")
    static_analysis._kernel_doc(commented)
    kernel_doc(queue, 'echo "$2:1: warning: no description" >&2')
    with pytest.raises(Failed, match=f"^{SOURCE}: .*no description"):
        static_analysis._kernel_doc(commented)
    kernel_doc(queue, "echo broken; exit 1")
    with pytest.raises(Failed, match="broken"):
        static_analysis._kernel_doc(commented)


def test_kernel_doc_does_not_read_a_removed_file(queue: Queue) -> None:
    added = committed(queue, "removed.c", "/**\n * f - g\n */\n").applied()
    kernel_doc(queue, "exit 1")
    (added.path / "removed.c").unlink()
    with pytest.raises(Skipped):
        static_analysis._kernel_doc(committed(queue, SOURCE, "\n"))
