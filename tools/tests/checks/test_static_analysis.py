"""checks/static_analysis.py: each reader of source finds what it is there for, and not what the base had."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from small import PATCH, SOURCE, committed, make_queue, undone

from dmcrypt_inline.checks import static_analysis
from dmcrypt_inline.checks.checklist import Failed, Queue, Skipped

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
    return make_queue(tmp_path)


def semantic_patch(queue: Queue, name: str, text: str) -> None:
    scripts = queue.applied().path / "scripts" / "coccinelle"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / name).write_text(text)


def test_coccinelle_finds_what_is_new(queue: Queue) -> None:
    with pytest.raises(Skipped, match="no semantic patches"):
        static_analysis._coccinelle(queue)
    semantic_patch(queue, "seven.cocci", SCRIPT)
    semantic_patch(queue, "other.cocci", SCRIPT.replace("script:python", "script:ocaml"))
    static_analysis._coccinelle(queue)
    old = committed(queue, SOURCE, BEFORE)
    with pytest.raises(Failed, match=rf"^seven\.cocci: {re.escape(PATCH)}/dm-crypt\.c:3\S* .*seven is no truth$"):
        static_analysis._coccinelle(old)
    # The same in the base, at another line; and once more.
    assert static_analysis._said("a.c:12:3-4: lock on line 11") == static_analysis._said("b/a.c:2:3-4: lock on line 1")
    base = committed(queue, SOURCE, "\n\n" + BEFORE).applied().series
    tree = replace(committed(queue, SOURCE, BEFORE).applied(), base=base)
    static_analysis._coccinelle(replace(queue, tree=tree))
    tree = replace(committed(queue, SOURCE, BEFORE + AFTER).applied(), base=base)
    with pytest.raises(Failed) as failed:
        static_analysis._coccinelle(replace(queue, tree=tree))
    assert sorted(re.findall(r"dm-crypt\.c:(\d+)", str(failed.value))) == ["3", "8"]


def test_coccinelle_reads_each_patch(queue: Queue) -> None:
    passing = undone(queue, SOURCE, BEFORE)
    semantic_patch(queue, "seven.cocci", SCRIPT)
    with pytest.raises(Failed, match="seven is no truth"):
        static_analysis._coccinelle(passing)


def test_coccinelle_that_gives_up_fails(queue: Queue) -> None:
    semantic_patch(queue, "seven.cocci", SCRIPT.replace("coccilib.report.print_report", "no_such_name"))
    with pytest.raises(Failed, match=r"^seven\.cocci:(.|\n)*no_such_name"):
        static_analysis._coccinelle(committed(queue, SOURCE, BEFORE))


def kernel_doc(queue: Queue, script: str) -> None:
    path = queue.applied().path / "scripts" / "kernel-doc"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_kernel_doc_has_the_last_word(queue: Queue) -> None:
    with pytest.raises(Skipped, match="no kernel-doc"):
        static_analysis._kernel_doc(queue)
    kernel_doc(queue, "exit 1")
    with pytest.raises(Skipped, match="nothing to read"):
        static_analysis._kernel_doc(queue)
    commented = committed(queue, SOURCE, "/**\n * f - g\n */\n")
    kernel_doc(queue, "exit 0")
    static_analysis._kernel_doc(commented)
    kernel_doc(queue, 'echo "$2:1: warning: no description" >&2')
    with pytest.raises(Failed, match=f"^{re.escape(PATCH)}: {SOURCE}: .*no description"):
        static_analysis._kernel_doc(commented)
    kernel_doc(queue, "echo broken; exit 1")
    with pytest.raises(Failed, match="broken"):
        static_analysis._kernel_doc(commented)


def test_kernel_doc_reads_each_patch(queue: Queue) -> None:
    passing = undone(queue, SOURCE, "/**\n * f - g\n */\n")
    kernel_doc(queue, """! grep -qF '/**' "$2" || echo "$2:1: warning: no description" >&2""")
    with pytest.raises(Failed, match="no description"):
        static_analysis._kernel_doc(passing)


def test_a_file_that_a_patch_removes_is_not_read(queue: Queue) -> None:
    held = committed(queue, "gone.c", "/**\n * f - g\n */\n").applied()
    kernel_doc(queue, "exit 1")
    (held.path / "gone.c").unlink()
    with pytest.raises(Skipped, match="nothing to read"):
        static_analysis._kernel_doc(committed(queue, SOURCE, "\n"))
