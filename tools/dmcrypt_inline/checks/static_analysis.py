"""`make check`, what the kernel tree's own readers of source say: coccinelle and kernel-doc."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..common.gitrepo import git, resolve
from ..common.progress import step
from ..common.run import run
from ..trees.series import Tree
from .checklist import Check, Failed, Queue, Skipped, fail_if

KERNEL_DOC = ("tools/docs/kernel-doc", "scripts/kernel-doc")  # newer trees, older trees
OPTIONS = re.compile(r"^///? *Options: *(.*)$", re.M)
COMMENT = re.compile(r"^\s*/\*\*\s*$", re.M)  # what kernel-doc reads begins so
PLACE = re.compile(r"^\S+?:\d+(:\d+)?(-\d+)?: *")  # of a finding: file, line, columns
GAVE_UP = "EXN: "  # spatch, of a file on which it met an exception of its own, or of a script
ONE_SCRIPT = 120.0  # seconds
BASE = "base"  # the state of the driver that no patch has changed yet


def source_reading_checks(queue: Queue) -> list[Check]:
    """The checks of what each patch of a kernel's queue leaves of the driver."""
    return [
        Check("coccinelle_finds_nothing_new_after_each_patch", lambda: _coccinelle(queue), slow=True),
        Check("kernel_doc_is_silent", lambda: _kernel_doc(queue)),
    ]


def _file(tree: Tree, commit: str, path: str, place: Path, log: Path) -> Path:
    """A file of a commit, written to the directory `place` under its own name."""
    place.mkdir(parents=True, exist_ok=True)
    found = place / Path(path).name
    found.write_text(git(tree.path, "show", f"{commit}:{path}", log=log).output)
    return found


def _coccinelle(queue: Queue) -> None:
    """The tree's semantic patches that have a report mode, over the driver as each patch leaves it.

    What the base has is not the queue's.
    """
    tree = queue.applied()
    scripts = [
        path for path in sorted((tree.path / "scripts" / "coccinelle").rglob("*.cocci")) if _reports(path.read_text())
    ]
    if not scripts:
        raise Skipped("the tree has no semantic patches")
    commits = {BASE: tree.base, **queue.driver_commits()}
    with (
        tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name,
        step(f"reading {len(commits)} states of the driver with {len(scripts)} semantic patches", queue.log),
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        for state, commit in commits.items():
            _file(tree, commit, tree.target.source, Path(name) / state, queue.log)
        read = pool.map(lambda script: _new_findings(script, Path(name), queue.log), scripts)
        fail_if([line for lines in read for line in lines])


def _reports(script: str) -> bool:
    """Whether a semantic patch has a report mode, and needs no compiler of another language for it."""
    if "script:ocaml" in script:
        return False
    return re.search(r"^virtual\s+(\w+,\s*)*report\b", script, re.M) is not None


def _said(finding: str) -> str:
    """A finding without its place, and without the lines that it names."""
    return re.sub(r"\bline \d+", "line", PLACE.sub("", finding))


def _new_findings(script: Path, states: Path, log: Path) -> list[str]:
    """What a semantic patch reports of the driver in each directory of `states`, but not of that in BASE.

    One run reads all of them, because half of a run for one file goes by before it is read.
    Raises CommandError when spatch cannot read the semantic patch, Failed when it gives up on a file.
    """
    options = OPTIONS.search(script.read_text())
    argv: list[str | Path] = ["spatch", "--very-quiet", "--no-show-diff", "-D", "report", "--cocci-file", script]
    done = run([*argv, *(options[1].split() if options else []), "--dir", states], log=log, timeout=ONE_SCRIPT)
    output = done.output.replace(f"{states}/", "")
    if GAVE_UP in output:  # with --dir its exit status does not tell
        raise Failed(f"{script.name}:\n{output.strip()}")
    lines = [line for line in output.splitlines() if PLACE.match(line)]
    known = Counter(_said(line) for line in lines if line.startswith(f"{BASE}/"))
    new = []
    for state in sorted(path.name for path in states.iterdir() if path.name != BASE):
        found = [line for line in lines if line.startswith(f"{state}/")]
        more = Counter(map(_said, found)) - known  # which of two alike is the new one, nobody knows
        new += [f"{script.name}: {line}" for line in found if _said(line) in more]
    return new


def _kernel_doc(queue: Queue) -> None:
    """No patch leaves a wrong kernel-doc comment in a file that it changes."""
    tree = queue.applied()
    script = next((tree.path / path for path in KERNEL_DOC if (tree.path / path).is_file()), None)
    if script is None:
        raise Skipped("the tree has no kernel-doc")
    problems, any_read = [], False
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        for patch, commit, path in queue.changed(".c", ".h"):
            if resolve(tree.path, f"{commit}:{path}", queue.log) is None:
                continue  # the patch takes it away
            source = _file(tree, commit, path, Path(name), queue.log)
            if not COMMENT.search(source.read_text()):
                continue
            any_read = True
            done = run([script, "-none", source], log=queue.log, timeout=120, cwd=tree.path, check=False)
            said = [line for line in done.output.splitlines() if re.search(r"\b(warning|error)\b", line, re.I)]
            said = said or ([done.output.strip()] if done.returncode else [])
            problems += [f"{patch}: {path}: {line}" for line in said]
    fail_if(problems)
    if not any_read:
        raise Skipped("nothing to read: no file that the queue changes has a kernel-doc comment")
