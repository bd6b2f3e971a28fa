"""`make check`, the documentation of a kernel's queue: the tree's own build of it has nothing new to complain of."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ..common import host
from ..common.gitrepo import git
from ..common.paths import TOOLS
from ..common.progress import step
from ..common.run import run
from .checklist import Check, Failed, Queue, Skipped, fail_if

ROOT = "Documentation"
# What `make htmldocs` reads; some of it is only in older trees, or newer ones.
READ = (
    *(ROOT, "Kbuild", "MAINTAINERS", "Makefile", "arch/x86", "drivers/md", "include", "scripts"),
    *("tools/docs", "tools/lib/python", "tools/net/ynl"),
)
COMPLAINT = re.compile(r"\b(warning|error|severe|critical):", re.I)  # not "build succeeded, 2 warnings."
# Put into the base's documentation, for each run to show that the build reports; and what it says.
PROBE = "\n\nSee :doc:`/no/such/document/as/this`.\n"
HEARD = re.compile(r"unknown document: '?/no/such/document/as/this")


def documentation_checks(queue: Queue) -> list[Check]:
    """The checks of the documentation that a kernel's queue changes."""
    return [Check("documentation_builds_without_new_warnings", lambda: _builds(queue), slow=True)]


def _builds(queue: Queue) -> None:
    """Sphinx, as the tree calls it, says of no patch's documentation what it does not say of the base's.

    Only the directories with files that a patch changes are built. Raises Failed where the build does not report
    a link to nowhere that is put into the base.
    """
    tree = queue.applied()
    changed: dict[tuple[str, str], list[str]] = {}  # by patch and commit
    for patch, commit, path in queue.changed(".rst"):
        if path.startswith(f"{ROOT}/"):
            changed.setdefault((patch, commit), []).append(path)
    if not changed:
        raise Skipped(f"nothing to read: the queue changes no .rst file in {ROOT}")
    requirements = TOOLS / "targets" / queue.target.name / "sphinx.txt"
    if not requirements.is_file():
        raise Failed(f"there is no {requirements}, which says what Sphinx the tree wants")
    env = host.python_env(requirements)
    problems = []
    with step("building the documentation after each patch that changes it", queue.log):
        for (patch, commit), paths in changed.items():
            known = _complaints(queue, tree.base, paths, env, PROBE)
            if not any(map(HEARD.search, known)):
                raise Failed("\n".join(["the build does not report a link to nowhere", *known]))
            new = Counter(_complaints(queue, commit, paths, env)) - Counter(known)
            problems += [f"{patch}: {line}" for line in new.elements()]
    fail_if(problems)


def _complaints(queue: Queue, commit: str, paths: Iterable[str], env: Path, more: str = "") -> list[str]:
    """What the build says of the directories of `paths`, without lines' numbers; `more` is put into their contents."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        source, packed = Path(name) / "source", Path(name) / "source.tar"
        source.mkdir()
        tree, log = queue.applied().path, queue.log
        there = git(tree, "ls-tree", "--name-only", commit, *READ, log=log).output.splitlines()
        git(tree, "archive", "-o", packed, commit, *there, log=log)
        run(["tar", "-xf", packed, "-C", source], log=log, timeout=120)
        directories = {_directory(source, path) for path in paths}
        for directory in directories:
            with (source / ROOT / directory / "index.rst").open("a") as contents:
                contents.write(more)
        argv: list[str | Path] = ["make", f"SPHINXBUILD={env / 'bin' / 'sphinx-build'}", "SPHINXOPTS="]
        argv += [f"SPHINXDIRS={' '.join(sorted(directories))}", "htmldocs"]
        path_of_env = f"{env / 'bin'}:{os.environ['PATH']}"  # the tree's scripts in Python need modules, too
        done = run(argv, log=log, timeout=600, cwd=source, env={"PATH": path_of_env})
        output = done.output.replace(f"{source}/", "")
    return [re.sub(r":\d+:", ":", line) for line in output.splitlines() if COMPLAINT.search(line)]


def _directory(source: Path, path: str) -> str:
    """The nearest directory above a file of the documentation that has contents, relative to the documentation."""
    above = PurePosixPath(path).relative_to(ROOT).parents
    return str(next((at for at in above if (source / ROOT / at / "index.rst").is_file()), PurePosixPath(".")))
