"""Stage 'built': kernels, and the modules that variants replace.

A kernel is cached by its content. Its key leaves out drivers/md and the target's other replaced files, which are built
as modules outside the kernel: a changed file there costs one object. The documentation and the selftests are left out
too. Edits elsewhere are built in build/<target>/edited-<flavour>, where make compiles what an edit affects.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git, resolve, update_files, write_tree
from ..common.paths import (
    GIB,
    KERNEL_BUILD,
    REPO,
    SOURCE_TREE,
    build_dir,
    is_complete,
    locked,
    log_dir,
    publish,
    require_space,
    stamp,
    use_entry,
)
from ..common.progress import step
from ..common.run import jobs, run
from ..trees.series import Tree
from ..trees.targets import (
    ARM64,
    DISTRIBUTION,
    DRIVER,
    KCSAN,
    MEASURED,
    MEASURED_PATCHES,
    NATIVE,
    NATIVE_DEBUG,
    NATIVE_PATCH,
    S390X,
    XFSTESTS,
    Target,
    stack_below,
)
from .kconfig import configure, requested

NO_PART_OF_A_KERNEL = ("Documentation/", "MAINTAINERS", "tools/testing/")
# All of the device mapper that is in a kernel whose device mapper is a module. Its headers are those of the base:
# of their contents it uses struct dm_kobject_holder, which has not changed since 3.14.
BUILT_IN = "dm-builtin"
TEST_MODULES = REPO / "selftests" / "functional"  # modules for tests, each one file
KBUILD_ENV = {"KBUILD_BUILD_USER": "dmcrypt-inline", "KBUILD_BUILD_HOST": "localhost"}
HOUR = 3600.0


@dataclass(frozen=True)
class Arch:
    """A processor that kernels are built for.

    `name` is make's ARCH (empty: the host's), `image` the make target of the kernel and `path` the file it makes
    (empty: kernels that are only configured), `variables` further variables of make, `kernel_only` those that variants
    do not have. `machine` is a foreign processor that QEMU emulates, `console` the console of its guests.
    """

    name: str
    image: str = ""
    path: str = ""
    compiler: str = "gcc"
    variables: tuple[str, ...] = ()
    machine: str = ""
    console: str = ""
    kernel_only: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The variables that each call of make in an O= directory needs."""
        return (*((f"ARCH={self.name}",) if self.name else ()), *self.variables)


def _cross(name: str, prefix: str, image: str = "", machine: str = "", console: str = "") -> Arch:
    path = f"arch/{name}/boot/{image}" if image else ""
    return Arch(name, image, path, f"{prefix}gcc", (f"CROSS_COMPILE={prefix}",), machine, console)


HOST = Arch("", "bzImage", "arch/x86/boot/bzImage")
USER_MODE = Arch("um", "linux", "linux")
ARCHES = {  # by flavour; others: HOST
    **dict.fromkeys((NATIVE, NATIVE_DEBUG, XFSTESTS, MEASURED, DISTRIBUTION), USER_MODE),
    KCSAN: replace(HOST, kernel_only=("KCSAN_SANITIZE=n",)),  # only the device mapper is instrumented
    "clang": Arch("", compiler="clang-19", variables=("CC=clang-19",)),  # 7.3 takes none older than 17
    "i386": Arch("i386"),
    "arm": _cross("arm", "arm-linux-gnueabi-"),
    "s390": _cross("s390", "s390x-linux-gnu-"),
    ARM64: _cross("arm64", "aarch64-linux-gnu-", "Image", "arm64", "ttyAMA0"),
    S390X: _cross("s390", "s390x-linux-gnu-", "bzImage", "s390x", "ttyS1"),
}


@dataclass(frozen=True)
class Prepared:
    """A configured O= directory in which modules' objects can be compiled (but not yet linked against a kernel).

    `objects` is the directory, `source` the kernel's sources, `key` the identity of both (hex).
    """

    source: Path
    objects: Path
    key: str
    arch: Arch


@dataclass(frozen=True)
class Kernel(Prepared):
    """One built kernel.

    `modules` is a flat directory of its .ko files, without those of variants, `variants` the directory in which make
    builds variants.
    """

    target: str
    flavour: str
    release: str
    image: Path
    modules: Path
    variants: Path
    config: Path


@dataclass(frozen=True)
class Module:
    """One build of dm-crypt, with the other modules of drivers/md and the target's other sources.

    `directory` holds the .ko files; `source` is the git blob id of dm-crypt.c; `uncommitted`: the tree had edits or
    commits that the queue does not have.
    """

    name: str
    directory: Path
    source: str
    uncommitted: bool = False

    @property
    def path(self) -> Path:
        """The .ko of dm-crypt."""
        return self.directory / "dm-crypt.ko"

    @property
    def inputs(self) -> dict[str, Path]:
        """All .ko files, by their places in a guest's input."""
        return {f"modules/{path.name}": path for path in sorted(self.directory.glob("*.ko"))}


def _shared(target: Target) -> str:
    """The target in whose name kernels are cached: a stacked queue shares them with the queue at the bottom."""
    return [*stack_below(target), target][0].name


def _listed(tree: Tree, commit: str, *paths: str) -> dict[str, str]:
    """The files of a commit below `paths` (default: all) by path, as lines of git ls-tree."""
    log = log_dir(tree.target.name) / "files.log"  # six megabytes for all files: only the last list is kept
    log.unlink(missing_ok=True)
    lines = git(tree.path, "ls-tree", "-r", commit, "--", *paths, log=log).output.splitlines()
    return {line.split("\t", 1)[1]: line for line in lines}


def _source_files(tree: Tree, flavour: str, commit: str, log: Path, *, others: bool = False) -> str:
    """Write the files that a kernel of this flavour is built from as a git tree, and return its id.

    The target's other sources are in it with `others` only, and are those of the base.
    """
    target = tree.target
    directory, *names = target.replaced
    files = {
        path: line
        for path, line in _listed(tree, commit).items()
        if not path.startswith((*NO_PART_OF_A_KERNEL, *target.replaced))
        or Path(path).name.startswith(("Kconfig", BUILT_IN))
    }
    headers = {path: line for path, line in _listed(tree, tree.base, directory).items() if path.endswith(".h")}
    files |= headers | (_listed(tree, tree.base, *names) if others and names else {})
    patches = target.data(NATIVE_PATCH) + (target.data(MEASURED_PATCHES) if flavour in (MEASURED, DISTRIBUTION) else [])
    makefile = {f"{directory}Makefile": f"obj-y := {BUILT_IN}.o\n"}
    return write_tree(tree.path, files.values(), log, added=makefile, patches=patches)


def prepare_kernel(tree: Tree, flavour: str, commit: str = "") -> Prepared:
    """Configure the kernel `flavour` of the tree (default: of its series) and build what module builds need.

    That takes under a minute on 2 cores. Raises UserError when an option of the fragments does not take effect, when
    a program fails or when the disk is too small.
    """
    log = log_dir(tree.target.name) / f"kernel-{flavour}.log"
    arch, fragments = ARCHES.get(flavour, HOST), tree.target.fragments[flavour]
    commit = commit or tree.series
    files = _source_files(tree, flavour, commit, log)
    compiler = run([arch.compiler, "--version"], log=log, timeout=60).output.splitlines()[0]
    key = hashlib.sha256("\n".join([files, compiler, *requested(fragments)]).encode()).hexdigest()

    def write_source(into: Path) -> None:
        update_files(tree.path, _source_files(tree, flavour, commit, log, others=True), into, log)

    source = use_entry("sources", f"{_shared(tree.target)}-{files[:16]}")
    place = use_entry("kernels", f"{_shared(tree.target)}-{flavour}-{key[:16]}")
    known = commit == tree.series or source.exists()
    edited = not known and files != _source_files(tree, flavour, tree.series, log)
    if edited:
        place = build_dir(tree.target.name) / f"edited-{flavour}"
        source = place / "source"
    else:
        publish(source, write_source, SOURCE_TREE, "copying the sources for kernel builds", log)
    prepared = Prepared(source, place / "objects", key, arch)
    if is_complete(prepared.objects, key):
        return prepared  # without the lock: a build of the kernel itself may hold it for minutes
    with locked(place):
        if is_complete(prepared.objects, key):
            return prepared
        with step(f"configuring the {flavour} kernel", log):
            require_space(place, GIB // 2, "the kernel's configuration")
            prepared.objects.mkdir(parents=True, exist_ok=True)
            if edited:
                stamp(prepared.objects, "")  # an interrupted build mixes old and new files
                for earlier in place.glob("built-*"):
                    shutil.rmtree(earlier)
                write_source(source)
            configure(source, prepared.objects, fragments, arch.arguments, log)
            _make(source, log, f"O={prepared.objects}", *arch.arguments, "modules_prepare")
            stamp(prepared.objects, key)
    return prepared


def build_kernel(tree: Tree, flavour: str, commit: str = "") -> Kernel:
    """The kernel `flavour` (a key of the target's fragments) of the tree, from the cache or built now (minutes).

    `commit` and errors: as for `prepare_kernel`.
    """
    prepared = prepare_kernel(tree, flavour, commit)
    log = log_dir(tree.target.name) / f"kernel-{flavour}.log"
    place, arch = prepared.objects.parent, prepared.arch
    edited = prepared.source.parent == place
    # Runs at the same time may build different edits: none may boot the kernel of another.
    built = place / f"built-{prepared.key[:16]}" if edited else place
    what = f"the {flavour} kernel" + (" with edits outside drivers/md (only the first build takes minutes)" * edited)
    with locked(place):
        if not is_complete(built, prepared.key):
            with step(f"building {what}", log):
                require_space(place, KERNEL_BUILD, "a kernel build")
                variables = (*arch.arguments, *arch.kernel_only)
                _make(prepared.source, log, f"O={prepared.objects}", *variables, arch.image, "modules")
                _collect(prepared.objects, built, arch)
                if not edited:
                    _drop_objects(prepared.objects)
                stamp(built, prepared.key)
    return Kernel(
        **vars(prepared),
        target=tree.target.name,
        flavour=flavour,
        release=(built / "release").read_text().strip(),
        image=built / arch.image,
        modules=built / "modules",
        variants=place / "variants",
        config=prepared.objects / ".config",
    )


def build_variant(
    kernel: Kernel,
    tree: Tree,
    commit: str,
    name: str,
    *,
    driver: Path | None = None,
    patch: Path | None = None,
    further: Mapping[str, str] | None = None,
) -> Module:
    """The modules of the tree at `commit`, for `kernel`; `name` is the variant's. Cached by the contents of all files.

    `driver` replaces dm-crypt.c; `patch` is applied as far as it changes replaced files; `further` are the sources of
    more modules by name (default: TEST_MODULES). Only files that differ from those of the kernel's last variant are
    compiled. Raises CommandError when the patch does not apply and, with the compiler's messages, when a module does
    not build.
    """
    target, log = tree.target, log_dir(kernel.target) / f"module-{name}-{kernel.flavour}.log"
    directory, *others = target.replaced
    further = further or {path.stem: path.read_text() for path in TEST_MODULES.glob("*.c")}
    added = {f"{directory}{module}.c": text for module, text in further.items()}
    objects = [directory, *(str(Path(path).with_suffix(".o")) for path in (*others, *added))]
    added["Kbuild"] = f"obj-m := {' '.join(objects)}\n"
    if driver:
        added[DRIVER] = driver.read_text()
    how = [f"--include={path}*" for path in target.replaced]
    listed = _listed(tree, commit, *target.replaced).values()
    files = write_tree(tree.path, listed, log, added=added, patches=[patch] if patch else [], how=how)
    final = use_entry("modules", f"{kernel.key[:16]}-{files[:16]}")
    if not final.exists():
        with step(f"building dm-crypt ({name}) for the {kernel.flavour} kernel", log), locked(kernel.objects.parent):
            if not is_complete(kernel.objects, kernel.key):
                raise UserError(f"another run has built other edits in {kernel.objects.parent}: run this one again")
            update_files(tree.path, files, kernel.variants, log)
            symbols = f"KCFLAGS=-g1 -fdebug-prefix-map={kernel.variants}/="  # lines of traces; the code stays the same
            make_module(kernel, kernel.variants, log, symbols, "modules")
            publish(final, lambda part: _copy_modules(kernel.variants, part), GIB // 16, f"the modules of {name}")
    return Module(name, final, resolve(tree.path, f"{files}:{DRIVER}", log) or "")


def _copy_modules(built: Path, into: Path) -> None:
    """Copy the .ko files that the last make in `built` lists: older ones stay there."""
    names = {Path(line).stem for line in (built / "modules.order").read_text().split()}
    for path in built.rglob("*.ko"):
        if path.stem in names:
            shutil.copyfile(path, into / path.name)


def make_module(kernel: Prepared, directory: Path, log: Path, *arguments: str) -> str:
    """Run make for the external module in `directory` against the kernel; returns make's messages."""
    return _make(kernel.objects, log, f"M={directory}", *kernel.arch.arguments, *arguments, timeout=600)


def write_kbuild(directory: Path, objects: Sequence[str], source: Path) -> None:
    """Let make compile these objects in `directory`, from files in it or in directories of the kernel's names.

    Headers in it come before those of the kernel `source`. Private headers are those in the directories of the files.
    """
    (directory / "include").mkdir(exist_ok=True)
    places = sorted({path.parent.relative_to(directory) for path in directory.rglob("*.[chS]")})
    places = [place for place in places if place.parts[:1] != ("include",)]  # they are not included by their names
    private = [f"-I{top / each}" for each in places for top in (directory, source) if (top / each).is_dir()]
    (directory / "Kbuild").write_text(
        f"LINUXINCLUDE := -I{directory}/include $(LINUXINCLUDE)\n"
        f"obj-m := {' '.join(objects)}\n"
        f"ccflags-y := -g -fdebug-prefix-map={directory}/= {' '.join(private)}\n"
        "asflags-y := $(ccflags-y)\n"
    )


def _make(directory: Path, log: Path, *arguments: str, timeout: float = HOUR) -> str:
    argv: list[str | Path] = ["make", "-C", directory, f"-j{jobs()}", *arguments]
    return run(argv, log=log, timeout=timeout, env=KBUILD_ENV).transcript


def _collect(objects: Path, place: Path, arch: Arch) -> None:
    """Copy image and modules to `place`."""
    modules = place / "modules"
    shutil.rmtree(modules, ignore_errors=True)
    modules.mkdir(parents=True)
    for module in sorted(objects.rglob("*.ko")):
        shutil.copyfile(module, modules / module.name)
    shutil.copy(objects / arch.path, place / arch.image)
    shutil.copyfile(objects / "include/config/kernel.release", place / "release")


def _drop_objects(objects: Path) -> None:
    """Remove the object files: no module build reads them."""
    for child in objects.iterdir():
        if child.is_dir() and child.name not in ("scripts", "tools", "include"):
            for path in (*child.rglob("*.o"), *child.rglob("*.a")):
                path.unlink()
