"""Stage 'package': dm-crypt of the trees with their queues applied, as a package that dkms builds for each kernel."""

import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git
from ..common.paths import TOOLS, build_dir, log_dir
from ..common.run import run
from .series import Tree
from .targets import DRIVER

NAME = "dmcrypt-dkms"
DATA = TOOLS / "package"
SOURCES = ("Kbuild", "dm-crypt.c", "dkms.conf")  # next to the drivers, and the other files of the package:
PROGRAM = "dmcrypt-dkms"
# The hooks of kernel packages: what each does, after which of their actions, and why there.
HOOKS = {
    "postinst.d/dmcrypt-dkms": ("install", "configure", "A kernel arrived; what makes its initramfs comes later"),
    "postinst.d/zz-dmcrypt-dkms": ("check", "configure", "A kernel arrived, and has an initramfs by now"),
    "header_postinst.d/dmcrypt-dkms": ("install", "configure", "The headers of a kernel arrived, perhaps after it"),
    "postrm.d/dmcrypt-dkms": ("remove", "remove", "A kernel is gone"),
}
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
VERSION = re.compile(r"[0-9][A-Za-z0-9.+~]*")  # dkms and dpkg find its end only so


@dataclass(frozen=True)
class Driver:
    """dm-crypt of one series of kernels.

    `series` is such as 6.12, `highest` its last release that the queue was made for; `files` are the driver and the
    private headers that it includes, by their names; `made` is when its last patch was (seconds since 1970).
    """

    series: str
    highest: int
    files: Mapping[str, str]
    made: int


def default_version() -> str:
    """The version of the tools."""
    return str(tomllib.loads((TOOLS / "pyproject.toml").read_text())["project"]["version"])


def driver_of(tree: Tree) -> Driver:
    """The files of a tree that go into the package. Raises UserError where a private header is missing."""
    log = log_dir(tree.target.name) / "package.log"

    def show(path: str) -> str:
        return git(tree.path, "show", f"{tree.series}:{path}", log=log).output

    top = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", show("Makefile"), re.M))
    source = Path(DRIVER)
    files: dict[str, str] = {}
    wanted = [source.name]
    while wanted:
        name = wanted.pop()
        files[name] = show(str(source.parent / name))
        wanted += [other for other in INCLUDE.findall(files[name]) if other not in files]
    made = git(tree.path, "show", "-s", "--format=%at", tree.series, log=log).output
    return Driver(f"{top['VERSION']}.{top['PATCHLEVEL']}", int(top["SUBLEVEL"]), files, int(made))


def make(drivers: Sequence[Driver], version: str) -> Path:
    """The package in build/package, always the same bytes for the same input. Raises UserError for a wrong version."""
    if not VERSION.fullmatch(version):
        raise UserError(f"{version} is no version for a package: digits first, then letters, digits and .+~")
    shutil.rmtree(build_dir("package"))
    place, log = build_dir("package"), log_dir("package") / "package.log"
    words = {"VERSION": version, "SERIES": f"Linux {', '.join(driver.series for driver in drivers)}"}
    root = place / "root"
    source = root / "usr" / "src" / f"{NAME}-{version}"
    write_source(source, drivers, words)
    _from(DATA / PROGRAM, root / "usr" / "sbin" / PROGRAM, words, 0o755)
    for hook, (what, when, why) in HOOKS.items():
        own = words | {"DO": what, "WHEN": when, "WHY": why}
        _from(DATA / "kernel-hook", root / "etc" / "kernel" / hook, own, 0o755)
    dracut = DATA / "dracut" / "module-setup.sh"
    _from(dracut, root / "usr" / "lib" / "dracut" / "modules.d" / f"99{NAME}" / dracut.name, words, 0o755)
    for control in sorted((DATA / "debian").iterdir()):
        _from(control, root / "DEBIAN" / control.name, words, 0o644 if control.name == "control" else 0o755)
    conffiles = "".join(f"/etc/kernel/{hook}\n" for hook in HOOKS)
    _write(root / "DEBIAN" / "conffiles", conffiles)
    _from(DATA / "copyright", root / "usr" / "share" / "doc" / NAME / "copyright", words, 0o644)
    for path in (root, *root.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)  # whatever the umask is
    debian = place / f"{NAME}_{version}_all.deb"
    env = {"SOURCE_DATE_EPOCH": str(max(driver.made for driver in drivers))}
    run(["dpkg-deb", "--root-owner-group", "--build", root, debian], log=log, timeout=120, env=env)
    return debian


def write_source(source: Path, drivers: Sequence[Driver], words: Mapping[str, str]) -> None:
    """Write the source that dkms builds: a directory for each series, and the Makefile that chooses one."""
    known = "".join(f"highest-{driver.series} := {driver.highest}\n" for driver in drivers)
    _write(source / "kernels.mk", f"package-version := {words['VERSION']}\n{known}")
    for name in SOURCES:
        _from(DATA / name, source / name, words, 0o644)
    for driver in drivers:
        for name, text in driver.files.items():
            _write(source / driver.series / name, text)


def _from(template: Path, path: Path, words: Mapping[str, str], mode: int) -> None:
    _write(path, re.sub(r"@([A-Z]+)@", lambda match: words[match[1]], template.read_text()), mode)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
