"""`make check`, what the kernel tree's own readers of source say: coccinelle, kernel-doc, and the documentation."""

from __future__ import annotations

import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import host
from .checks import Check, Queue, Skipped, fail_if
from .gitrepo import git
from .progress import step
from .run import run
from .series import Tree

KERNEL_DOC = ("tools/docs/kernel-doc", "scripts/kernel-doc")  # newer trees, older trees
OPTIONS = re.compile(r"^///? *Options: *(.*)$", re.M)
PLACE = re.compile(r"^\S+?:\d+(:\d+)?(-\d+)?: *")  # of a finding: file, line, columns
ONE_SCRIPT = 120.0  # seconds


def source_reading_checks(queue: Queue) -> list[Check]:
    """The checks of what a kernel's queue leaves of the driver and its documentation."""
    return [
        Check("coccinelle_finds_nothing_new", lambda: _coccinelle(queue)),
        Check("kernel_doc_is_silent", lambda: _kernel_doc(queue)),
        Check("documentation_is_proper_rst", lambda: _documentation(queue)),
    ]


def _file(tree: Tree, commit: str, path: str, place: Path, log: Path) -> Path:
    """A file of a commit, written to the directory `place` under its own name."""
    place.mkdir(parents=True, exist_ok=True)
    found = place / Path(path).name
    found.write_text(git(tree.path, "show", f"{commit}:{path}", log=log).output)
    return found


def _coccinelle(queue: Queue) -> None:
    """The tree's semantic patches that have a report mode, over the driver. What the base has is not the queue's."""
    tree = queue.applied()
    scripts = [
        path for path in sorted((tree.path / "scripts" / "coccinelle").rglob("*.cocci")) if _reports(path.read_text())
    ]
    if not scripts:
        raise Skipped("the tree has no semantic patches")
    with (
        tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name,
        step(f"reading the driver with {len(scripts)} semantic patches", queue.log),
    ):
        files = {
            tag: _file(tree, commit, tree.target.source, Path(name) / tag, queue.log)
            for tag, commit in (("base", tree.base), ("series", tree.series))
        }

        def problems(script: Path) -> list[str]:
            found = _findings(script, files["series"], queue.log)
            known = _findings(script, files["base"], queue.log) if found else []
            return [f"{script.name}: {line}" for line in found if _said(line) not in map(_said, known)]

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            fail_if([line for lines in pool.map(problems, scripts) for line in lines])


def _reports(script: str) -> bool:
    """Whether a semantic patch has a report mode, and needs no compiler of another language for it."""
    if "script:ocaml" in script:
        return False
    return re.search(r"^virtual\s+(\w+,\s*)*report\b", script, re.M) is not None


def _said(finding: str) -> str:
    """A finding without its place, and without the lines that it names."""
    return re.sub(r"\bline \d+", "line", PLACE.sub("", finding))


def _findings(script: Path, source: Path, log: Path) -> list[str]:
    """What a semantic patch reports of a file; CommandError when spatch cannot read either."""
    options = OPTIONS.search(script.read_text())
    argv: list[str | Path] = ["spatch", "--very-quiet", "--no-show-diff", "-D", "report", "--cocci-file", script]
    done = run([*argv, *(options[1].split() if options else []), source], log=log, timeout=ONE_SCRIPT)
    return [line for line in done.output.splitlines() if PLACE.match(line)]


def _kernel_doc(queue: Queue) -> None:
    """No kernel-doc comment of the driver is wrong."""
    tree = queue.applied()
    script = next((tree.path / path for path in KERNEL_DOC if (tree.path / path).is_file()), None)
    if script is None:
        raise Skipped("the tree has no kernel-doc")
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        source = _file(tree, tree.series, tree.target.source, Path(name), queue.log)
        done = run([script, "-none", source], log=queue.log, timeout=120, cwd=tree.path, check=False)
    said = [line for line in done.output.splitlines() if re.search(r"\b(warning|error)\b", line, re.I)]
    fail_if(said or ([done.output.strip()] if done.returncode else []))


def _documentation(queue: Queue) -> None:
    """docutils reads every .rst file that the queue changes, and has nothing to say."""
    tree = queue.applied()
    changed = git(tree.path, "diff", "--name-only", tree.base, tree.series, "--", "*.rst", log=queue.log).output
    problems = []
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        for path in changed.splitlines():
            text = _file(tree, tree.series, path, Path(name), queue.log)
            python = host.python_env() / "bin" / "python"
            words: list[str | Path] = [
                python,
                "-m",
                "docutils",
                "--writer=null",
                "--report=info",
                "--exit-status=1",
                text,
            ]
            done = run(words, log=queue.log, timeout=120, check=False)
            problems += [f"{path}: {line}" for line in done.output.splitlines() if done.returncode]
    fail_if(problems)
