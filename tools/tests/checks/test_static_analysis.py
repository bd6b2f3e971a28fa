"""checks/static_analysis.py: each checker reports new defects, and not those of the base."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from small import SOURCE, committed, findings, make_queue

from dmcrypt_inline.checks import static_analysis
from dmcrypt_inline.checks.checklist import Queue

# Written like those of the kernel: a rule, and a script that reports its matches.
SCRIPT = """\
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
SEVEN = "int before(void)\n{\n\treturn 7;\n}\n"


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return make_queue(tmp_path)


def add_script(queue: Queue, path: str, text: str) -> None:
    """Add an executable script to the tree."""
    place = queue.applied().path / "scripts" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("", SEVEN, ["3"]),
        ("\n\n" + SEVEN, SEVEN, []),  # the same defect on another line
        (SEVEN, SEVEN + "\n" + SEVEN.replace("before", "after"), ["3", "8"]),  # either may be the new one
    ],
)
def test_new_findings_of_coccinelle_fail(queue: Queue, before: str, after: str, lines: list[str]) -> None:
    add_script(queue, "coccinelle/seven.cocci", SCRIPT)
    add_script(queue, "coccinelle/other.cocci", SCRIPT.replace("script:python", "script:ocaml"))
    base = committed(queue, SOURCE, before).applied().series
    tree = replace(committed(queue, SOURCE, after).applied(), base=base)
    found = findings(lambda: static_analysis._coccinelle(replace(queue, apply=lambda: tree)))
    assert sorted(re.findall(r"^seven\.cocci: dm-crypt\.c:(\d+)", found, re.M)) == lines


def test_an_exception_in_coccinelle_fails(queue: Queue) -> None:
    add_script(queue, "coccinelle/seven.cocci", SCRIPT.replace("coccilib.report.print_report", "no_such_name"))
    assert "no_such_name" in findings(lambda: static_analysis._coccinelle(committed(queue, SOURCE, SEVEN)))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('echo "$2:1: warning: no structured comments found" >&2', ""),
        ('echo "$2:1: warning: no description" >&2', "dm-crypt.c:1: warning: no description"),
        ("echo broken; exit 1", "broken\n"),
    ],
)
def test_warnings_of_kernel_doc_fail(queue: Queue, line: str, expected: str) -> None:
    add_script(queue, "kernel-doc", f"#!/bin/sh\n{line}\n")
    assert findings(lambda: static_analysis._kernel_doc(queue)) == expected
