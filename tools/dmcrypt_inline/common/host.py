"""The programs that the tools need from the host, and a Python environment of our own."""

import hashlib
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from .errors import UserError
from .paths import BUILD, GIB, TOOLS, is_complete, locked, require_space, stamp, use_entry
from .progress import say, step
from .run import CommandError, run

REQUIREMENTS = TOOLS / "requirements.txt"
ENTERED = "DMCRYPT_INLINE_ENTERED"  # set in the environment by enter_python_env
# Besides PATH: an ordinary user's PATH may lack sbin, and git finds its commands itself.
MORE_PATHS = ("/usr/sbin", "/sbin", "/usr/lib/git-core", "/usr/libexec/git-core")

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FILES = {  # patterns below /
    "debian-archive-keyring": (str(KEYRING).lstrip("/"),),
    "ovmf": ("usr/share/OVMF/OVMF_CODE*.fd",),
    "python3-jinja2": ("usr/lib/python3*/*-packages/jinja2",),
}
DISTRIBUTIONS = {
    "Debian": "apt-get install --no-install-recommends",
    "Fedora": "dnf install",
    "Arch": "pacman -S",
}


def _table(name: str) -> dict[str, tuple[str, ...]]:
    """The words of a file of tools/, by the first word of their line."""
    lines = [line.split() for line in (TOOLS / name).read_text().splitlines() if line and not line.startswith("#")]
    return {key: tuple(words) for key, *words in lines}


GROUPS, PACKAGES = _table("groups.txt"), _table("packages.txt")


def is_installed(name: str) -> bool:
    """Look for what a name in GROUPS stands for."""
    if name in FILES:
        return any(any(Path("/").glob(pattern)) for pattern in FILES[name])
    if name == "ensurepip":
        return importlib.util.find_spec(name) is not None
    if "::" in name:
        return _succeeds(["perl", f"-M{name}", "-e1"])
    if name.endswith(".h"):
        return _succeeds(["gcc", "-E", "-x", "c", "-"], f"#include <{name}>\n")
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *MORE_PATHS])) is not None


def packages_of(names: Iterable[str], distribution: str = "Debian") -> list[str]:
    """The packages of a distribution (one of DISTRIBUTIONS) that have what these names stand for."""
    number = list(DISTRIBUTIONS).index(distribution)
    return sorted({PACKAGES.get(name, (name,) * len(DISTRIBUTIONS))[number] for name in names} - {"-"})


def install_commands(names: Iterable[str]) -> str:
    """How to install what these names stand for: a line for each distribution."""
    wanted = list(names)
    lines = []
    for each, command in DISTRIBUTIONS.items():
        lines.append(f"  {each}: {command} {' '.join(packages_of(wanted, each))}")
        lines += [f"    not packaged: {name}" for name in wanted if not packages_of([name], each)]
    return "\n".join(lines)


def install_packages(*groups: str) -> list[str]:
    """Install what these groups lack, where that is possible: on Debian and its derivatives, with root's rights.

    Prints the list of packages first. Returns the names that are missing at the end.
    """
    missing = _missing(groups)
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]  # never asks for a password
    if not missing or not shutil.which("apt-get") or not _succeeds([*sudo, "true"]):
        return missing
    say(f"installing: {' '.join(packages_of(missing))}")
    log = BUILD / "host.log"
    apt = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    install = [*apt, "install", "-y", "-q", "--no-install-recommends", *packages_of(missing)]
    try:
        with step("installing packages", log):
            if run(install, log=log, timeout=1800, check=False).returncode != 0:
                run([*apt, "update", "-q"], log=log, timeout=600)  # the lists were old, or there were none
                run(install, log=log, timeout=1800)
    except CommandError as error:
        say(str(error))
    return _missing(groups)


def ensure_packages(*groups: str) -> None:
    """Install what these groups lack. Raises UserError with the packages where that is not possible."""
    missing = install_packages(*groups)
    if missing:
        raise UserError(f"these are missing: {' '.join(missing)}\n  as root, type:\n{install_commands(missing)}")


def _missing(groups: Iterable[str]) -> list[str]:
    needed = dict.fromkeys(name for group in groups for name in GROUPS[group])
    return [name for name in needed if not is_installed(name)]


def _succeeds(argv: list[str], stdin: str = "") -> bool:
    try:
        return run(argv, log=BUILD / "host.log", timeout=60, stdin=stdin.encode(), check=False).returncode == 0
    except CommandError:  # there is no such program
        return False


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
    """The virtual environment with the versions that a file, or REQUIREMENTS, pins: made once, in the cache.

    Raises UserError when it cannot be made, for example without network.
    """
    requirements = requirements or REQUIREMENTS
    identity = f"{sys.base_prefix} {platform.python_version()}\n".encode() + requirements.read_bytes()
    key = hashlib.sha256(identity).hexdigest()
    env = use_entry("python", key[:16])
    if is_complete(Path(sys.prefix), key):
        return Path(sys.prefix)
    ensure_packages("python")
    log = BUILD / "python.log"
    with locked(env):
        if is_complete(env, key):
            return env
        with step("setting up the Python environment", log):
            require_space(env, GIB // 2, "the Python environment")
            shutil.rmtree(env, ignore_errors=True)  # a venv contains its own path, so it cannot be renamed
            run([sys.executable, "-m", "venv", env], log=log, timeout=300)
            pip = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "-q", "-r")
            run([env / "bin" / "python", *pip, requirements], log=log, timeout=1200)
            stamp(env, key)
    return env
