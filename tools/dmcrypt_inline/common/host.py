"""What the host must have: Debian packages and a Python environment of our own."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from .errors import UserError
from .paths import BUILD, GIB, TOOLS, disk_guard, is_complete, locked, stamp, use_entry
from .progress import step
from .run import CommandError, run

REQUIREMENTS = TOOLS / "requirements.txt"
ENTERED = "DMCRYPT_INLINE_ENTERED"  # set in the environment by enter_python_env

# What each stage calls that a minimal Debian does not have. The names are Debian's.
PACKAGES: dict[str, tuple[str, ...]] = {
    "base": ("debian-archive-keyring", "git", "xz-utils"),
    "build": ("bc", "bison", "flex", "gcc", "git", "libc6-dev", "libelf-dev", "make", "perl"),
    "cryptsetup": (
        *("autoconf", "automake", "autopoint", "gettext", "libtool", "pkg-config"),
        *("gcc", "libc6-dev", "libdevmapper-dev", "libblkid-dev", "libjson-c-dev", "libpopt-dev", "libssl-dev"),
        *("make", "uuid-dev"),
    ),
    "check": ("git", "git-email", "libmailtools-perl", "perl", "quilt", "rsync", "shellcheck", "sparse"),
    # Coccinelle looks for the library under the name that it has for development.
    "coccinelle": ("coccinelle", "libpython3-dev"),
    "slow": ("clang-19", "gcc-arm-linux-gnueabi", "gcc-s390x-linux-gnu"),
    "guest": (
        *("btrfs-progs", "cryptsetup-bin", "dmsetup", "e2fsprogs", "fio", "jq", "keyutils", "kmod", "perl", "procps"),
        *("qemu-system-x86", "udev", "util-linux", "xxd", "xz-utils"),
    ),
    # The disks for its tests.
    "package": (
        "cryptsetup-bin",
        "debian-archive-keyring",
        "debootstrap",
        "e2fsprogs",
        "ovmf",
        "qemu-system-x86",
        "qemu-utils",
    ),
    "python": () if importlib.util.find_spec("ensurepip") else ("python3-venv",),
}


def missing_packages(names: Iterable[str]) -> list[str]:
    """Those of the Debian packages `names` that are not installed. Raises UserError where there is no dpkg."""
    wanted = sorted(set(names))
    try:
        query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted]
        asked = run(query, log=BUILD / "host.log", timeout=60, check=False)
    except CommandError as error:
        raise UserError(
            "this is not a Debian system (there is no dpkg-query), so the packages cannot be looked up\n"
            f"  the tools are written for Debian and its derivatives; they need: {' '.join(wanted)}"
        ) from error
    installed = {line.split()[0] for line in asked.output.splitlines() if line.endswith(" installed")}
    return [name for name in wanted if name not in installed]


def _privilege() -> list[str] | None:
    """The words before a command that needs root; None when there is no way to be root without a password."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        asked = run(["sudo", "-n", "true"], log=BUILD / "host.log", timeout=30, check=False)
        if asked.returncode == 0:
            return ["sudo", "-n"]
    return None


def ensure_packages(*stages: str) -> None:
    """Install what the stages (keys of PACKAGES) lack; does not touch apt when nothing is missing.

    Raises UserError with the command to type when packages are missing and this
    user may not install them, and when apt-get fails.
    """
    missing = missing_packages(name for stage in stages for name in PACKAGES[stage])
    if not missing:
        return
    typed = f"apt-get install --no-install-recommends {' '.join(missing)}"
    rights = _privilege()
    if rights is None:
        raise UserError(
            f"these packages are missing: {' '.join(missing)}\n"
            "  and installing them needs root, or sudo without a password. As root, type:\n"
            f"    {typed}"
        )
    log = BUILD / "host.log"
    apt = [*rights, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    install = [*apt, "install", "-y", "-q", "--no-install-recommends", *missing]
    with step(f"installing {' '.join(missing)}", log):
        if run(install, log=log, timeout=1800, check=False).returncode == 0:
            return
        try:  # the lists may be old, or not there at all
            run([*apt, "update", "-q"], log=log, timeout=600)
            run(install, log=log, timeout=1800)
        except CommandError as error:
            raise UserError(
                f"apt-get could not install what is missing; to see why, type:\n    {typed}\n{error}"
            ) from error


def enter_python_env() -> None:
    """Start this program again in the environment of `python_env`, unless it runs there. Does not return then."""
    if os.environ.get(ENTERED):  # once is enough, also where the interpreter calls its place by another name
        return
    env = python_env()
    if env != Path(sys.prefix):
        os.environ[ENTERED] = "1"
        python = env / "bin" / "python"
        sys.stdout.flush()
        os.execv(python, [str(python), *sys.argv])


def python_env(requirements: Path | None = None) -> Path:
    """The virtual environment with the pinned versions of a file, or of REQUIREMENTS (made once, in the cache).

    Where this process runs in it, this one. Raises UserError when it cannot be made,
    for example without network.
    """
    requirements = requirements or REQUIREMENTS
    identity = f"{sys.base_prefix} {platform.python_version()}\n".encode() + requirements.read_bytes()
    key = hashlib.sha256(identity).hexdigest()
    env = use_entry("python", key[:16])
    if is_complete(Path(sys.prefix), key):
        return Path(sys.prefix)
    ensure_packages("python")
    log = BUILD / "python.log"
    if is_complete(env, key):
        return env
    with locked(env):
        if is_complete(env, key):
            return env
        what = f"the Python environment ({requirements.name})"
        with step(f"setting up {what}", log), disk_guard(env, GIB // 2, what):
            shutil.rmtree(env, ignore_errors=True)  # a venv holds its own path: made in place, stamped last
            try:
                run([sys.executable, "-m", "venv", env], log=log, timeout=300)
                pip = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "-q", "-r")
                run([env / "bin" / "python", *pip, requirements], log=log, timeout=1200)
            except CommandError as error:
                if os.strerror(errno.ENOSPC) in error.completed.transcript:
                    raise
                raise UserError(
                    f"the Python environment could not be made: are pip's package index and the network up?\n{error}"
                ) from error
            stamp(env, key)
    return env
