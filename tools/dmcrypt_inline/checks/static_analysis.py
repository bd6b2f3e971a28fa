"""`make check`, the kernel tree's own source checkers: Coccinelle and kernel-doc."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..common.gitrepo import git
from ..common.jobs import jobs
from ..common.progress import step
from ..common.run import run
from .checklist import Check, Failed, Queue, Skipped, fail_if

KERNEL_DOC = ("tools/docs/kernel-doc", "scripts/kernel-doc")  # newer trees, older trees
REPORT_MODE = re.compile(r"^virtual\s+(\w+,\s*)*report\b", re.M)
OPTIONS = re.compile(r"^///? *Options: *(.*)$", re.M)
WARNING = re.compile(r"\b(warning|error)\b(?!.*no structured comments)", re.I)
PLACE = re.compile(r"^\S+?:\d+(:\d+)?(-\d+)?: *")  # of a finding: file, line, columns
EXCEPTION = "EXN: "  # spatch could not read a file or run a script
ONE_SCRIPT = 120.0  # seconds


def source_reading_checks(queue: Queue) -> list[Check]:
    """The checks of the source as a kernel queue changes it."""
    return [
        Check("coccinelle_finds_nothing_new", lambda: _coccinelle(queue), ("spatch",), slow=True),
        Check("kernel_doc_is_silent", lambda: _kernel_doc(queue), ("perl",)),
    ]


def _write(queue: Queue, commit: str, path: str, directory: Path) -> Path:
    """Write a file of a commit to `directory` under its own name."""
    directory.mkdir(exist_ok=True)
    written = directory / Path(path).name
    written.write_text(git(queue.applied().path, "show", f"{commit}:{path}", log=queue.log).output)
    return written


def _coccinelle(queue: Queue) -> None:
    """Run the tree's semantic patches over the driver of the base and of the tree, and compare the findings."""
    tree = queue.applied()
    # Scripts in OCaml need a compiler of that language.
    scripts = [
        script
        for script in sorted((tree.path / "scripts" / "coccinelle").rglob("*.cocci"))
        if REPORT_MODE.search(text := script.read_text()) and "script:ocaml" not in text
    ]
    if not scripts:
        raise Skipped("the tree has no semantic patches")
    with (
        tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name,
        step(f"reading the driver with {len(scripts)} semantic patches", queue.log),
        ThreadPoolExecutor(jobs()) as pool,
    ):
        _write(queue, tree.base, tree.target.source, Path(name) / "old")
        _write(queue, tree.series, tree.target.source, Path(name) / "new")
        findings = pool.map(lambda script: _new_findings(script, Path(name), queue.log), scripts)
        fail_if([line for lines in findings for line in lines])


def _new_findings(script: Path, drivers: Path, log: Path) -> list[str]:
    """The findings of a semantic patch in drivers/new that are not in drivers/old.

    One run reads both files, because spatch needs seconds before it reads the first.
    """
    options = OPTIONS.search(script.read_text())
    argv: list[str | Path] = ["spatch", "--very-quiet", "--no-show-diff", "-D", "report", "--cocci-file", script]
    done = run([*argv, *(options[1].split() if options else []), "--dir", drivers], log=log, timeout=ONE_SCRIPT)
    output = done.transcript.replace(f"{drivers}/", "")
    if EXCEPTION in output:  # the exit status is 0 all the same
        raise Failed(f"{script.name}:\n{output.strip()}")
    lines = [line for line in output.splitlines() if PLACE.match(line)]
    old = Counter(_without_lines(line) for line in lines if line.startswith("old/"))
    found = [line.removeprefix("new/") for line in lines if line.startswith("new/")]
    new = Counter(map(_without_lines, found)) - old  # of two equal findings both are shown: either may be the new one
    return [f"{script.name}: {line}" for line in found if _without_lines(line) in new]


def _without_lines(finding: str) -> str:
    """A finding without its place and without the line numbers in its text."""
    return re.sub(r"\bline \d+", "line", PLACE.sub("", finding))


def _kernel_doc(queue: Queue) -> None:
    """Read the kernel-doc comments of the files that the queue changes. W=1 does it for .c files alone."""
    tree = queue.applied()
    script = next((tree.path / path for path in KERNEL_DOC if (tree.path / path).is_file()), None)
    if script is None:
        raise Skipped("the tree has no kernel-doc")
    present = queue.paths("--diff-filter=d", "--", "*.c", "*.h")
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        files = [_write(queue, tree.series, path, Path(name)) for path in present]
        done = run([script, "-none", *files], log=queue.log, timeout=300, cwd=tree.path, check=False)
    lines = [line.replace(f"{name}/", "") for line in done.transcript.splitlines() if WARNING.search(line)]
    fail_if(lines or ([done.transcript] if done.returncode else []))
