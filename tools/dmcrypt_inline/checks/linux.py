"""`make check`, what only kernel queues have: checkpatch, and a W=1 build with sparse of every patch."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ..common import host
from ..common.gitrepo import git, resolve
from ..common.progress import say, step
from ..common.run import CommandError, run
from ..kernels.build import USER_MODE, Prepared, make_module, prepare_kernel, write_kbuild
from ..report import figures
from ..trees import selftests
from ..trees.series import Tree
from ..trees.targets import COMPILE_ONLY, CROSS_COMPILE_ONLY
from .checklist import Check, Failed, Queue, Skipped, fail_if

# Nothing that a W=1 build of the driver would see.
BUILT_ELSEWHERE = ("Documentation/", "MAINTAINERS", "tools/testing/selftests/")
CONFIGURED = ("Kconfig", "Makefile", ".kunitconfig")  # kernels are configured from the whole queue's
CODE = (".c", ".S")
NO_HISTORY = ("UNKNOWN_COMMIT_ID",)  # a tree of one commit: what Fixes: names cannot be looked up
ADDED = re.compile(r"^--- /dev/null\n\+\+\+ b/(.*)", re.M)
MAINTAINED = re.compile(r"^F:\t(.*/)$", re.M)
DIAGNOSTIC = re.compile(r"\b(warning|error):")
# For sparse 0.6.4, which knows none of these. The trees and clang's own headers use them: the first makes newer trees
# refuse sparse, and after an error in a header sparse says nothing more of the driver.
SPARSE = "CF=-D__typeof_unqual__=__typeof__ '-D_Static_assert(...)=' '-D__has_include_next(...)=0'"
REFUSED = re.compile(r"C=2 specified, but.*")
# What the base's driver ends with, for each run to show that sparse reports; and what sparse says to it.
PROBE = "int *sparse_probe(int __user *from); int *sparse_probe(int __user *from) { return from; }\n"
HEARD = "dm-crypt.c: warning: incorrect type in return expression (different address spaces)"

# What 32-bit code calls to divide 64 bits (and 64-bit code 128): gcc's library has it, no kernel does.
DIVIDES = re.compile(r"\bU (__(?:u?(?:div|mod|divmod)[dt]i[34]|aeabi_u?ldivmod))$", re.M)


def linux_checks(queue: Queue) -> list[Check]:
    """The checks of a kernel's queue."""
    return [
        Check("every_option_of_the_kernels_takes_effect", lambda: _configure(queue)),
        style_check(queue),
        *(
            Check(f"each_patch_builds_without_warnings_{how}", partial(_each_builds, queue, flavour), slow)
            for how, flavour, slow in (("with_gcc", _usual(queue), False), ("with_clang", "clang", True))
            if flavour in queue.target.fragments
        ),
        *(
            Check(f"driver_builds_without_warnings_{flavour}", partial(_builds, queue, flavour), slow=True)
            for flavour in queue.target.fragments
            if flavour in (*COMPILE_ONLY, *CROSS_COMPILE_ONLY) and flavour != "clang"
        ),
        Check("figures_were_measured_on_this_driver", lambda: _figures(queue)),
        *(_selftests_checks(queue) if queue.target.adds_selftests or queue.target.below else []),
    ]


def _selftests_checks(queue: Queue) -> list[Check]:
    return [
        Check("selftests_are_those_of_the_directory", lambda: fail_if(selftests.differences(queue.applied()))),
        Check("selftests_install_as_kselftests", lambda: _kselftest(queue)),
    ]


def _usual(queue: Queue) -> str:
    """The kernel for which each patch is compiled: one that is built anyway."""
    return queue.target.tested if queue.quick else "fast"


def _configure(queue: Queue) -> None:
    """Configure what the driver is compiled for; the first one copies the sources, and each keeps one CPU busy."""
    tree = queue.kernel or queue.applied()
    compiled = [name for name in tree.target.fragments if name in ("fast", *COMPILE_ONLY, *CROSS_COMPILE_ONLY)]
    first, *others = [tree.target.tested] if queue.quick else compiled
    prepare_kernel(tree, first)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(partial(prepare_kernel, tree), others))


def checkpatch(queue: Queue, patches: Sequence[Path], *ignored: str) -> None:
    """The target's own checkpatch over patch files, CHECK messages included; nothing but `ignored` is allowed.

    Files may be added below directories that MAINTAINERS has.
    Where the user's repository has the history, the commits that are named must be in it.
    """
    tree = queue.applied()
    objects = _history(tree, queue.log)
    ignored = ignored if objects else (*ignored, *NO_HISTORY)
    script = tree.path / "scripts" / "checkpatch.pl"
    maintainers = (tree.path / "MAINTAINERS").read_text() if (tree.path / "MAINTAINERS").is_file() else ""
    directories = tuple(MAINTAINED.findall(maintainers))
    # HOME: a .checkpatch.conf of the user's must not decide. PATH: checkpatch runs a Python script with modules.
    env = {"HOME": str(tree.path), "PATH": f"{host.python_env() / 'bin'}:{os.environ['PATH']}"}
    env |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES": objects} if objects else {}

    def judge(patch: Path) -> str:
        maintained = all(path.startswith(directories) for path in ADDED.findall(patch.read_text()))
        allowed = ",".join((*ignored, *(["FILE_PATH_CHANGES"] if maintained else [])))
        ignoring = ["--ignore", allowed] if allowed else []  # checkpatch takes no empty list
        argv = ["perl", str(script), "-q", "--strict", "--show-types", *ignoring, str(patch)]
        done = run(argv, log=queue.log, timeout=300, cwd=tree.path, env=env, check=False)
        return f"{patch.name}:\n{done.output.strip()}" if done.returncode else ""

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        fail_if([problem for problem in pool.map(judge, patches) if problem])


def style_check(queue: Queue) -> Check:
    """The kernel's own look at patches."""
    return Check("checkpatch_strict_is_silent", lambda: _checkpatch(queue))


def _checkpatch(queue: Queue) -> None:
    """checkpatch over the queue, whose patches nobody has signed off."""
    checkpatch(queue, queue.patches(), "MISSING_SIGN_OFF")
    if not _history(queue.applied(), queue.log) and any("\nFixes: " in path.read_text() for path in queue.patches()):
        say("note: the base has no history, so the commits in Fixes: were not looked up; LINUX= a git clone has it")


def _history(tree: Tree, log: Path) -> str | None:
    """Where the objects of the user's repository are, if the base is from there and has its history."""
    if tree.taken is None:
        return None
    own, name = tree.taken
    if resolve(own, f"{name}^^{{commit}}", log) is None:  # its parent: a shallow clone has none
        return None
    return git(own, "rev-parse", "--path-format=absolute", "--git-path", "objects", log=log).output.strip()


def _figures(queue: Queue) -> None:
    """The driver that README and cover letter show figures of is the one that the queue makes."""
    kept = figures.kept(queue.target)
    if not kept:
        raise Skipped("no results are kept for this target's figures yet")
    tree = queue.applied()
    driver = resolve(tree.path, f"{tree.series}:{tree.target.source}", queue.log)
    for environment in (results.environment for results in kept):
        name = figures.results_of(queue.target, environment["accel"]).name
        measured = dict(environment["modules"]).get("series")
        if measured != driver:
            raise Failed(
                f"{name} was measured on dm-crypt.c {measured}, the queue makes {driver}:\n"
                "measure again with make bench, then run tools/dmcrypt-inline figures --results FILE"
            )
        if environment["queue_hash"] != tree.queue_hash:
            say(f"note: {name} was measured with another queue, but with the same dm-crypt.c")


def _kselftest(queue: Queue) -> None:
    """The tree's own `make install` and `gen_tar` take every file, and run_kselftest.sh would run every test."""
    tree = queue.applied()
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        source, place = Path(name) / "source", Path(name) / "installed"
        source.mkdir()
        packed = Path(name) / "source.tar"
        wanted = ("tools/testing/selftests", "tools/scripts", "scripts/subarch.include")
        git(tree.path, "archive", "-o", packed, tree.series, *wanted, log=queue.log)
        run(["tar", "-xf", packed, "-C", source], log=queue.log, timeout=60)
        # Nothing here is compiled: the headers that the kernel's own Makefile would install are not needed.
        (source / "Makefile").write_text("headers_install:\n")
        argv: list[str | Path] = ["make", "-C", source / "tools" / "testing" / "selftests", f"INSTALL_PATH={place}"]
        run([*argv, "TARGETS=dm-crypt", "FORMAT=.gz", "gen_tar"], log=queue.log, timeout=300)
        installed = {path.name for path in (place / "dm-crypt").iterdir()}
        list_of_tests = (place / "run_kselftest.sh").read_text() + _text(place / "kselftest-list.txt")
        packages = list((place / "kselftest-packages").glob("kselftest*"))
    fail_if(
        [f"{path} is not installed" for path in selftests.files() if _wanted(path) not in installed]
        + [f"{test} would not be run" for test in installed if test in selftests.tests() and test not in list_of_tests]
        + ([] if packages else ["gen_tar packed nothing"])
    )


def _wanted(path: str) -> str:
    """The name of a file that is to be installed; the Makefile is what installs."""
    name = Path(path).name
    return name if name != "Makefile" else "settings"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _builds(queue: Queue, flavour: str) -> None:
    """Compile dm-crypt as the whole queue leaves it; what the base already says is not the queue's."""
    tree = queue.applied()
    whole = {"the whole queue": (tree.series, set(tree.target.replaced))}
    fail_if(_new_diagnostics(queue, prepare_kernel(queue.kernel or tree, flavour), whole))


def _each_builds(queue: Queue, flavour: str) -> None:
    """Compile what each patch changes with W=1 and sparse; what the base already says is not the queue's."""
    tree = queue.applied()
    prepared = prepare_kernel(queue.kernel or tree, flavour)
    changed = [
        (patch, commit, path)
        for patch, commit, path in queue.changed()
        if not path.startswith(BUILT_ELSEWHERE) and Path(path).name not in CONFIGURED
    ]
    problems = [
        f"{patch}: it changes {path}, which this check does not build"
        for patch, _, path in changed
        if not path.endswith((*CODE, ".h"))
    ]
    # What is for other processors is compiled by those flavours that are for them.
    code = {path for _, _, path in changed if path.endswith(CODE)} | {tree.target.source}
    code = {path for path in code if prepared.arch.name != USER_MODE.name or "x86" not in Path(path).parts}
    commits: dict[str, tuple[str, set[str]]] = {}
    for patch, commit, path in changed:
        if built := code if path.endswith(".h") else code & {path}:
            commits[patch] = (commit, commits.get(patch, ("", set()))[1] | built)
    with step(f"compiling what each patch changes ({prepared.arch.compiler})", queue.log):
        problems += _new_diagnostics(queue, prepared, commits)
    fail_if(problems)


def _new_diagnostics(queue: Queue, prepared: Prepared, commits: Mapping[str, tuple[str, set[str]]]) -> list[str]:
    """What is said about files at each of `commits`, and not at the base, after the commit's name there.

    Raises Failed where one does not compile, and where sparse does not report a defect put into the base.
    """
    tree = queue.applied()
    theirs = sorted({path for _, _, path in queue.changed(*CODE, ".h")})
    wanted = {tree.target.source}.union(*(paths for _, paths in commits.values()))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # one file keeps one CPU busy
        base = pool.submit(_diagnostics, queue, prepared, tree.base, wanted, theirs)
        compiled = {name: pool.submit(_diagnostics, queue, prepared, *what, theirs) for name, what in commits.items()}
    known = base.result()
    heard = [line for line in known if line.endswith(HEARD)]
    if not heard:
        raise Failed("\n".join(["sparse does not report a pointer to user space that is taken for another", *known]))
    known.remove(heard[0])
    problems = []
    for name, lines in compiled.items():
        try:
            found = Counter(lines.result())
        except CommandError as error:
            raise Failed(f"{name}: it does not build\n{error}") from error
        problems += [f"{name}: {line}" for line in (found - Counter(known)).elements()]
    return problems


def _diagnostics(queue: Queue, prepared: Prepared, commit: str, wanted: set[str], theirs: Sequence[str]) -> list[str]:
    """What is said about the files `wanted` at `commit` by compiler, sparse and objects; without lines.

    They are compiled beside those files of `theirs` that are there, headers first of all. At the base the driver
    ends with PROBE. Raises CommandError when one does not compile, Failed when the tree does not let sparse run.
    """
    tree = queue.applied()
    listed = git(tree.path, "ls-tree", "-r", "--name-only", commit, "--", *wanted, *theirs, log=queue.log).output
    there = listed.splitlines()
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        directory = Path(name)
        for path in there:
            more = PROBE if commit == tree.base and path == tree.target.source else ""
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(git(tree.path, "show", f"{commit}:{path}", log=queue.log).output + more)
        objects = [str(Path(path).with_suffix(".o")) for path in there if path in wanted]
        write_kbuild(directory, objects, prepared.source)
        output = make_module(prepared, directory, queue.log, "W=1", "C=2", SPARSE, *objects)
        undefined = run(["nm", "-u", *(directory / each for each in objects)], log=queue.log, timeout=60).output
    if refused := REFUSED.search(output):
        raise Failed(f"the tree does not let sparse run: {refused[0]}")
    lines = [line for line in output.splitlines() if DIAGNOSTIC.search(line)]
    lines += [f"it calls {name}, which no kernel has: see do_div and div64_u64" for name in DIVIDES.findall(undefined)]
    return [re.sub(r":\d+:\d+", "", line.replace(f"{directory}/", "")) for line in lines]
