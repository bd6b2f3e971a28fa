"""Stage 'built': kernels and dm-crypt modules, cached by content.

A kernel's key leaves out dm-crypt.c, the documentation and the selftests, so
that work on the queue rebuilds modules only. Kernels are built from a copy of
the sources in the cache: an O= directory holds the path of its sources, and
build/<target>/tree may move, change or go.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.gitrepo import blob_id, check_out, git
from ..common.jobs import jobs
from ..common.paths import (
    GIB,
    KERNEL_BUILD,
    SOURCE_TREE,
    disk_guard,
    is_complete,
    locked,
    log_dir,
    publish,
    stamp,
    use_entry,
)
from ..common.progress import step
from ..common.run import run
from ..trees.series import Tree
from ..trees.targets import MEASURED, NATIVE, NATIVE_DEBUG, Target, stack_below
from .kconfig import check_config, declared_options, merge_fragments

NO_PART_OF_A_KERNEL = ("Documentation/", "MAINTAINERS", "tools/testing/")
KBUILD_ENV = {"KBUILD_BUILD_USER": "dmcrypt-inline", "KBUILD_BUILD_HOST": "localhost"}
HOUR = 3600.0


@dataclass(frozen=True)
class Arch:
    """What kernels are built for, and how.

    `name` is what make knows (none: the host's own), `image` what to make, `path` where it then lies (none: never
    made whole), `compiler` the compiler, `words` how make is told of it.
    """

    name: str
    image: str = ""
    path: str = ""
    compiler: str = "gcc"
    words: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What each make in an O= directory for it must be told."""
        return (*((f"ARCH={self.name}",) if self.name else ()), *self.words)


def _cross(name: str, prefix: str) -> Arch:
    return Arch(name, compiler=f"{prefix}gcc", words=(f"CROSS_COMPILE={prefix}",))


HOST = Arch("", "bzImage", "arch/x86/boot/bzImage")
USER_MODE = Arch("um", "linux", "linux")
ARCHES = {  # of a flavour; else HOST
    NATIVE: USER_MODE,
    NATIVE_DEBUG: USER_MODE,
    MEASURED: USER_MODE,
    "clang": Arch("", compiler="clang-19", words=("CC=clang-19",)),  # 7.3 takes none older than 17
    "i386": Arch("i386"),
    "arm": _cross("arm", "arm-linux-gnueabi-"),
    "s390": _cross("s390", "s390x-linux-gnu-"),
}


@dataclass(frozen=True)
class Kernel:
    """One built kernel.

    `objects` is its O= directory, `source` what it was built from, `modules` a
    flat directory of all its .ko files but dm-crypt's, `key` its identity (hex).
    """

    target: str
    flavour: str
    arch: Arch
    release: str
    image: Path
    source: Path
    objects: Path
    modules: Path
    config: Path
    key: str


@dataclass(frozen=True)
class Module:
    """One build of dm-crypt: `path` is the .ko, `source` the git blob id of the file it was made from.

    `beside` are the .ko files of the target's further modules, built from the same commit.
    """

    name: str
    path: Path
    source: str
    beside: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A configured O= directory in which modules' objects can be compiled (but not yet linked against a kernel)."""

    source: Path
    objects: Path
    key: str
    arch: Arch


def _shared(target: Target) -> str:
    """Whose kernels they are: a stacked queue that changes the driver alone has those of the target below."""
    return [*stack_below(target), target][0].name


def _patches(target: Target, flavour: str) -> list[Path]:
    """What the sources of this flavour have besides the tree's files."""
    measuring = sorted(target.measuring.glob("*.patch")) if target.measuring and flavour == MEASURED else []
    return [*([target.mend] if target.mend else []), *measuring]


def source_key(tree: Tree, flavour: str) -> str:
    """sha256 (hex) over the files that a kernel of this flavour, what variants replace left out, is made of."""
    log = log_dir(tree.target.name) / "files.log"  # a log of its own: six megabytes, of use until the next run
    log.unlink(missing_ok=True)
    listed = git(tree.path, "ls-tree", "-r", tree.series, log=log).output
    digest = hashlib.sha256()
    for line in listed.splitlines(keepends=True):
        path = line.rstrip("\n").split("\t", 1)[1]
        if path not in tree.target.replaced and not path.startswith(NO_PART_OF_A_KERNEL):
            digest.update(line.encode())
    for patch in _patches(tree.target, flavour):
        digest.update(patch.read_bytes())
    return digest.hexdigest()


def prepare_kernel(tree: Tree, flavour: str) -> Prepared:
    """Configure the kernel `flavour` of the tree and build what module builds need; under a minute on 2 cores.

    Raises UserError when an option of the fragments does not take effect, when
    a program fails or when the disk is too small.
    """
    log = log_dir(tree.target.name) / f"kernel-{flavour}.log"
    fragments = tree.target.fragments[flavour]
    wanted = merge_fragments(fragments)
    sources = source_key(tree, flavour)
    arch = ARCHES.get(flavour, HOST)
    compiler = run([arch.compiler, "--version"], log=log, timeout=60).output.splitlines()[0]
    identity = "\n".join([sources, compiler, *(f"{name}={value}" for name, value in wanted.items())])
    key = hashlib.sha256(identity.encode()).hexdigest()
    source = _source(tree, flavour, sources, log)
    place = use_entry("kernels", f"{_shared(tree.target)}-{flavour}-{key[:16]}")
    prepared = Prepared(source, place / "objects", key, arch)
    if is_complete(prepared.objects, key):
        return prepared  # without the lock: a build of the kernel itself may hold it for minutes
    with locked(place):
        if is_complete(prepared.objects, key):
            return prepared
        with step(f"configuring the {flavour} kernel", log), disk_guard(place, GIB // 2, "the kernel's configuration"):
            prepared.objects.mkdir(parents=True, exist_ok=True)
            request = place / "requested.config"
            request.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
            allconfig = {"KCONFIG_ALLCONFIG": str(request)}
            to_objects = (f"O={prepared.objects}", *prepared.arch.arguments)
            _make(source, log, *to_objects, "allnoconfig", env=allconfig)
            check_config(wanted, (prepared.objects / ".config").read_text(), declared_options(source))
            _make(source, log, *to_objects, "modules_prepare")
            stamp(prepared.objects, key)
    return prepared


def build_kernel(tree: Tree, flavour: str) -> Kernel:
    """The kernel `flavour` (one of targets.FLAVOURS) of the tree, from the cache or built now (minutes).

    Raises UserError as `prepare_kernel` does.
    """
    prepared = prepare_kernel(tree, flavour)
    log = log_dir(tree.target.name) / f"kernel-{flavour}.log"
    place = prepared.objects.parent
    with locked(place):
        if not is_complete(place, prepared.key):
            with step(f"building the {flavour} kernel", log), disk_guard(place, KERNEL_BUILD, "a kernel build"):
                arch = prepared.arch
                _make(prepared.source, log, f"O={prepared.objects}", *arch.arguments, arch.image, "modules")
                _collect(prepared.objects, place, arch)
                stamp(place, prepared.key)
    return Kernel(
        target=tree.target.name,
        flavour=flavour,
        release=(place / "release").read_text().strip(),
        arch=prepared.arch,
        image=place / prepared.arch.image,
        source=prepared.source,
        objects=prepared.objects,
        modules=place / "modules",
        config=prepared.objects / ".config",
        key=prepared.key,
    )


def build_module(kernel: Kernel, source: Path, name: str, beside: Sequence[Path] = ()) -> Module:
    """dm-crypt from the file `source`, for `kernel`; `name` is the variant's. Cached by the contents of all.

    `beside` are the sources of further modules. Raises CommandError with the compiler's messages when one does not
    build.
    """
    blob = blob_id(source)
    key = "-".join(["source", kernel.key[:16], blob[:16], *(blob_id(path)[:16] for path in beside)])
    sources = {"dm-crypt": source.read_text(), **{path.stem: path.read_text() for path in beside}}
    made = _build_modules(kernel, key, sources, f"dm-crypt ({name})", f"module-{name}")
    return Module(name, made / "dm-crypt.ko", blob, tuple(made / f"{path.stem}.ko" for path in beside))


def build_together(kernel: Kernel, sources: Mapping[str, str], what: str) -> Path:
    """A directory with a module NAME.ko of each text of `sources` by name, for `kernel`. Cached by the contents of all.

    Raises CommandError with the compiler's messages when one does not build.
    """
    key = hashlib.sha256("\0".join([kernel.key, *(word for item in sources.items() for word in item)]).encode())
    return _build_modules(kernel, f"{kernel.key[:16]}-{key.hexdigest()[:16]}", sources, what, "modules")


def _build_modules(kernel: Kernel, key: str, sources: Mapping[str, str], what: str, log_name: str) -> Path:
    """The cache's entry `key` with a module of each of `sources`, and these."""
    log = log_dir(kernel.target) / f"{log_name}-{kernel.flavour}.log"
    final = use_entry("modules", key)

    def make(part: Path) -> None:
        for name, text in sources.items():
            (part / f"{name}.c").write_text(text)
        write_kbuild(part, [f"{name}.o" for name in sources])
        make_module(kernel, part, log, "modules")
        for path in part.iterdir():
            if path.suffix not in (".c", ".ko") or path.name.endswith(".mod.c"):
                path.unlink()

    if not final.exists():
        with step(f"building {what} for the {kernel.flavour} kernel", log):
            publish(final, make, GIB // 16, f"the modules of {what}")
    return final


def make_module(kernel: Kernel | Prepared, directory: Path, log: Path, *arguments: str, timeout: float = 600) -> str:
    """Run make for the external module in `directory` against the kernel; returns make's messages."""
    return _make(kernel.objects, log, f"M={directory}", *kernel.arch.arguments, *arguments, timeout=timeout)


def write_kbuild(directory: Path, objects: Sequence[str], source: Path | None = None) -> None:
    """Let `directory` be where these objects are made, from files in it or in directories of the kernel's names.

    Headers in it come before those of the kernel `source`; private ones are those beside the files, and of drivers/md.
    Line numbers are for traces: they change nothing of the code.
    """
    private = ["-I$(srctree)/drivers/md"]
    ahead = ""
    if source:
        (directory / "include").mkdir(exist_ok=True)
        ahead = f"LINUXINCLUDE := -I{directory}/include $(LINUXINCLUDE)\n"
        places = sorted({path.parent.relative_to(directory) for path in directory.rglob("*.[chS]")})
        places = [place for place in places if place.parts[:1] != ("include",)]  # they are not included by their names
        private += [f"-I{top / each}" for each in places for top in (directory, source) if (top / each).is_dir()]
    text = f"obj-m := {' '.join(objects)}\nccflags-y := -g -fdebug-prefix-map={directory}/= {' '.join(private)}\n"
    (directory / "Kbuild").write_text(f"{ahead}{text}asflags-y := $(ccflags-y)\n" if source else text)


def _make(directory: Path, log: Path, *arguments: str, env: dict[str, str] | None = None, timeout: float = HOUR) -> str:
    argv: list[str | Path] = ["make", "-C", directory, f"-j{jobs()}", *arguments]
    return run(argv, log=log, timeout=timeout, env={**KBUILD_ENV, **(env or {})}).transcript


def _source(tree: Tree, flavour: str, key: str, log: Path) -> Path:
    final = use_entry("sources", f"{_shared(tree.target)}-{key[:16]}")
    if not final.exists():
        with step("copying the sources for kernel builds", log):
            patches = _patches(tree.target, flavour)
            publish(final, lambda part: _copy_sources(tree, patches, part, log), SOURCE_TREE, "the kernel's sources")
    return final


def _copy_sources(tree: Tree, patches: Sequence[Path], part: Path, log: Path) -> None:
    check_out(tree.path, tree.series, part, log)
    # The key leaves these out, and the kernel's own build has them: a queue's may not build.
    for path in tree.target.replaced:
        (part / path).write_text(git(tree.path, "show", f"{tree.base}:{path}", log=log).output)
    if patches:
        git(part, "init", "-q", log=log)  # else git apply looks for a repository further up
        git(part, "apply", *patches, log=log)
        shutil.rmtree(part / ".git")


def _collect(objects: Path, place: Path, arch: Arch) -> None:
    """Gather image and modules beside `objects`, then drop the object files: no module build reads them."""
    modules = place / "modules"
    shutil.rmtree(modules, ignore_errors=True)
    modules.mkdir()
    for module in sorted(objects.rglob("*.ko")):
        if module.name != "dm-crypt.ko":
            shutil.copyfile(module, modules / module.name)
    shutil.copy(objects / arch.path, place / arch.image)
    shutil.copyfile(objects / "include/config/kernel.release", place / "release")
    for child in objects.iterdir():
        if child.is_dir() and child.name not in ("scripts", "tools", "include"):
            for path in (*child.rglob("*.o"), *child.rglob("*.a")):
                path.unlink()
