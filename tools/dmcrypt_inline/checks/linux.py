"""`make check`, kernel queues alone: checkpatch, builds with W=1 and sparse, and the kselftest files."""

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ..common.gitrepo import git
from ..common.progress import step
from ..common.run import CommandError, jobs, run
from ..kernels.build import ARCHES, HOST, USER_MODE, Prepared, make_module, prepare_kernel, write_kbuild
from ..trees import selftests
from ..trees.targets import COMPILE_ONLY, CROSS_COMPILE_ONLY, DRIVER
from .checklist import Check, Failed, Queue, diagnostics, fail_if, kept_lines, new_lines

SELFTESTS = "tools/testing/selftests/"
CODE = (".c", ".S")
SOURCES = (*CODE, ".h")
# sparse 0.6.4 does not know these, which the trees and clang's headers use. Newer trees refuse to run a sparse without
# the first, and after an error in a header sparse reports nothing about the driver.
SPARSE = "CF=-D__typeof_unqual__=__typeof__ '-D_Static_assert(...)=' '-D__has_include_next(...)=0'"
# A defect that is added to the base's driver to prove that sparse reports it, and the report.
PROBE = "int *sparse_probe(int __user *from); int *sparse_probe(int __user *from) { return from; }\n"
REPORTED = "dm-crypt.c: warning: incorrect type in return expression (different address spaces)"
# 32-bit code calls these to divide 64 bits, 64-bit code to divide 128. They are in the library of gcc, not in kernels.
DIVISIONS = re.compile(r"\bU (__(?:u?(?:div|mod|divmod)[dt]i[34]|aeabi_u?ldivmod))$", re.M)


def linux_checks(queue: Queue) -> list[Check]:
    """The checks of a kernel queue."""
    target = queue.target
    usual = target.tested if queue.quick else "fast"  # a kernel that is built anyway
    builds = {
        "each_patch_builds_without_warnings_with_gcc": (_each_builds, usual),
        "each_patch_builds_without_warnings_with_clang": (_each_builds, "clang"),
    }
    for flavour in (*COMPILE_ONLY, *CROSS_COMPILE_ONLY):
        if flavour != "clang":
            builds[f"driver_builds_without_warnings_{flavour}"] = (_driver_builds, flavour)
    checks = [style_check(queue)]
    for name, (call, flavour) in builds.items():
        if flavour in target.fragments:
            programs = (ARCHES.get(flavour, HOST).compiler, "sparse", "make", "nm")
            checks.append(Check(name, partial(call, queue, flavour), programs, slow=flavour != usual))
    if target.adds_selftests or target.below:
        checks += [
            Check("selftests_equal_the_directory", lambda: fail_if(selftests.differences(queue.applied()))),
            Check("selftests_are_in_their_makefile", _makefile_lists_selftests),
        ]
    return checks


def style_check(queue: Queue) -> Check:
    """The tree's own checkpatch over the queue, whose patches are not signed off yet."""
    name = "checkpatch_strict_is_silent"
    return Check(name, lambda: checkpatch(queue, queue.patches(), "MISSING_SIGN_OFF"), ("perl",))


def checkpatch(queue: Queue, patches: Sequence[Path], *ignored: str) -> None:
    """Run the tree's own checkpatch --strict over patch files. Only messages of the types `ignored` are allowed.

    The tree has no history, so the commits in Fixes: are not looked up. checkpatch warns of each new file, even in a
    directory that MAINTAINERS lists.
    """
    tree = queue.applied()
    env = {"HOME": str(tree.path)}  # the user's .checkpatch.conf must not count
    allowed = ",".join((*ignored, "UNKNOWN_COMMIT_ID", "FILE_PATH_CHANGES"))

    def judge(patch: Path) -> str:
        argv = ["perl", "scripts/checkpatch.pl", "-q", "--strict", "--show-types", "--ignore", allowed, str(patch)]
        done = run(argv, log=queue.log, timeout=300, cwd=tree.path, env=env, check=False)
        # On standard error is the traceback of scripts/spdxcheck.py, which needs modules that nothing else needs.
        return f"{patch.name}:\n{done.output.strip() or done.transcript.strip()}" if done.returncode else ""

    with ThreadPoolExecutor(jobs()) as pool:
        fail_if([problem for problem in pool.map(judge, patches) if problem])


def _makefile_lists_selftests() -> None:
    """Each selftest is a word of the directory's Makefile, from which kselftest takes the files to install."""
    names = {path.name for path in selftests.SELFTESTS.iterdir()} - {"Makefile", "config", "settings"}
    listed = (selftests.SELFTESTS / "Makefile").read_text().split()
    fail_if([f"{name} is not in {selftests.IN_TREE}/Makefile" for name in sorted(names.difference(listed))])


def _driver_builds(queue: Queue, flavour: str) -> None:
    """Compile the driver with the complete queue applied, for one kernel."""
    tree = queue.applied()
    states = {"the complete queue": (tree.series, {DRIVER, *tree.target.other_sources})}
    fail_if(_new_diagnostics(queue, prepare_kernel(queue.kernel() or tree, flavour), states))


def _each_builds(queue: Queue, flavour: str) -> None:
    """Compile the files that each patch changes. A changed header compiles every file that the queue changes."""
    tree = queue.applied()
    prepared = prepare_kernel(queue.kernel() or tree, flavour)
    changed = [each for each in queue.changes if each[2].endswith(SOURCES) and not each[2].startswith(SELFTESTS)]
    code = {path for _, _, path in changed if path.endswith(CODE)} | {DRIVER}
    if prepared.arch.name == USER_MODE.name:
        code = {path for path in code if "x86" not in Path(path).parts}
    states: dict[str, tuple[str, set[str]]] = {}
    for patch, commit, path in changed:
        if files := code if path.endswith(".h") else code & {path}:
            states[patch] = (commit, states.get(patch, ("", set()))[1] | files)
    with step(f"compiling the files that each patch changes ({prepared.arch.compiler})", queue.log):
        fail_if(_new_diagnostics(queue, prepared, states))


def _new_diagnostics(queue: Queue, prepared: Prepared, states: Mapping[str, tuple[str, set[str]]]) -> list[str]:
    """Compile the files of each state (name, commit, files); return the diagnostics that the base does not have.

    Raises Failed when a state does not compile, and when sparse does not report PROBE in the base's driver.
    """
    tree = queue.applied()
    files = {DRIVER}.union(*(files for _, files in states.values()))
    with ThreadPoolExecutor(jobs()) as pool:
        base = pool.submit(_diagnostics, queue, prepared, tree.base, files)
        compiled = {name: pool.submit(_diagnostics, queue, prepared, *state) for name, state in states.items()}
    old = base.result()
    reported = [line for line in old if line.endswith(REPORTED)]
    if not reported:
        raise Failed("\n".join(["sparse does not report the defect that this check adds to the base", *old]))
    old.remove(reported[0])
    problems = []
    for name, result in compiled.items():
        try:
            found = result.result()
        except CommandError as error:
            raise Failed(f"{name}: it does not build\n{error}") from error
        problems += [f"{name}: {line}" for line in new_lines(found, old)]
    return problems


def _diagnostics(queue: Queue, prepared: Prepared, commit: str, files: Iterable[str]) -> list[str]:
    """Compile those of `files` that a commit has, with W=1 and sparse; return the diagnostics without line numbers.

    All headers that the queue changes are taken from the commit, too. Diagnostics of the same files are kept.
    Raises CommandError when a file does not compile.
    """
    tree = queue.applied()
    related = sorted({path for _, _, path in queue.changes if path.endswith(SOURCES)})  # a file may include any of them
    listed = git(tree.path, "ls-tree", "-r", "--name-only", commit, "--", *files, *related, log=queue.log).output
    sparse = run(["sparse", "--version"], log=queue.log, timeout=60).output
    texts = {path: git(tree.path, "show", f"{commit}:{path}", log=queue.log).output for path in listed.splitlines()}
    if commit == tree.base:
        texts[DRIVER] += PROBE
    return kept_lines((prepared.key, sparse, sorted(files), texts), lambda: _compile(prepared, texts, files, queue.log))


def _compile(prepared: Prepared, texts: Mapping[str, str], files: Iterable[str], log: Path) -> list[str]:
    """Compile those of `files` that are among `texts`; return the diagnostics without line numbers."""
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        directory = Path(name)
        for path, text in texts.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(text)
        objects = [str(Path(path).with_suffix(".o")) for path in texts if path in files]
        write_kbuild(directory, objects, prepared.source)
        messages = make_module(prepared, directory, log, "W=1", "C=2", SPARSE, *objects)
        undefined = run(["nm", "-u", *(directory / each for each in objects)], log=log, timeout=60).output
    divisions = DIVISIONS.findall(undefined)
    calls = [f"it calls {name}, which no kernel has: use do_div or div64_u64" for name in divisions]
    return [*diagnostics(messages.replace(f"{directory}/", "")), *calls]
