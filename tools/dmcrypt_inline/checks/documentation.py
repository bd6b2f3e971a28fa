"""`make check`, the documentation of a kernel queue: warnings of kernel-doc and of the tree's Sphinx build."""

import os
import re
import tempfile
from pathlib import Path, PurePosixPath

from ..common import host
from ..common.gitrepo import git, update_files, write_tree
from ..common.progress import step
from ..common.run import run
from .checklist import Check, Failed, Queue, Skipped, fail_if, new_lines

ROOT = "Documentation"
# The files that `make htmldocs` reads; not every tree has all of them.
READ = (
    *(ROOT, "Kbuild", "MAINTAINERS", "Makefile", "arch/x86", "drivers/md", "include", "scripts"),
    *("tools/docs", "tools/lib/python", "tools/net/ynl"),
)
KERNEL_DOC = ("tools/docs/kernel-doc", "scripts/kernel-doc")  # newer trees, older trees
KERNEL_DOC_WARNING = re.compile(r"\b(warning|error)\b(?!.*no structured comments)", re.I)
WARNING = re.compile(r"\b(warning|error|severe|critical):", re.I)  # not "build succeeded, 2 warnings."


def documentation_checks(queue: Queue) -> list[Check]:
    """The checks of the documentation that a kernel queue changes."""
    return [
        Check("kernel_doc_is_silent", lambda: _kernel_doc(queue), ("perl",)),
        Check("documentation_builds_without_new_warnings", lambda: _sphinx(queue), ("make",), slow=True),
    ]


def _kernel_doc(queue: Queue) -> None:
    """Read the kernel-doc comments of the files that the queue changes. W=1 does it for .c files alone."""
    tree = queue.applied()
    script = next((tree.path / path for path in KERNEL_DOC if (tree.path / path).is_file()), None)
    if script is None:
        raise Skipped("the tree has no kernel-doc")
    present = queue.paths("--diff-filter=d", "--", "*.c", "*.h")
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        files = [Path(name, Path(path).name) for path in present]
        for path, file in zip(present, files):
            file.write_text(git(tree.path, "show", f"{tree.series}:{path}", log=queue.log).output)
        done = run([script, "-none", *files], log=queue.log, timeout=300, cwd=tree.path, check=False)
    lines = [line.replace(f"{name}/", "") for line in done.transcript.splitlines() if KERNEL_DOC_WARNING.search(line)]
    fail_if(lines or ([done.transcript] if done.returncode else []))


def _sphinx(queue: Queue) -> None:
    """Build the changed directories of the documentation on the base and on the tree, and compare the warnings."""
    tree = queue.applied()
    changed = queue.paths("--", f"{ROOT}/*.rst")
    if not changed:
        raise Skipped(f"the queue changes no .rst file in {ROOT}")
    requirements = next(iter(queue.target.data("sphinx.txt")), None)
    if requirements is None:
        raise Failed(f"tools/targets/{queue.target.name}/sphinx.txt, the Sphinx version of the tree, is missing")
    env = host.python_env(requirements)
    with step("building the documentation of the base and of the tree", queue.log):
        old, new = (_warnings(queue, commit, changed, env) for commit in (tree.base, tree.series))
    fail_if(new_lines(new, old))


def _warnings(queue: Queue, commit: str, paths: list[str], env: Path) -> list[str]:
    """The build's warnings for the directories of `paths`, without line numbers."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        source, tree, log = Path(name), queue.applied().path, queue.log
        listed = git(tree, "ls-tree", "-r", commit, "--", *READ, log=log).output.splitlines()
        update_files(tree, write_tree(tree, listed, log), source, log)
        directories = sorted({str(PurePosixPath(path).parent.relative_to(ROOT)) for path in paths})
        argv: list[str | Path] = ["make", f"SPHINXBUILD={env / 'bin' / 'sphinx-build'}", "SPHINXOPTS="]
        argv += [f"SPHINXDIRS={' '.join(directories)}", "htmldocs"]
        path_of_env = f"{env / 'bin'}:{os.environ['PATH']}"  # the tree's Python scripts need its modules, too
        done = run(argv, log=log, timeout=600, cwd=source, env={"PATH": path_of_env})
        output = done.transcript.replace(f"{source}/", "")
    return [re.sub(r":\d+:", ":", line) for line in output.splitlines() if WARNING.search(line)]
