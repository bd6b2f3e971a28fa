"""What a stage leaves behind: small values, written once as JSON, read by reports only."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ..common import host
from ..common.paths import log_dir
from ..common.run import run
from ..kernels.build_programs import Programs
from .machine import Machine

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Environment:
    """What a result depends on besides the code under test.

    `modules` maps a variant's name to the git blob id of its dm-crypt.c, `tools`
    a program of the host to what it says its version is; `cpu` is the host's.
    `state` is that of the tree: "committed", or "uncommitted" when the user's edits were built.
    `cryptsetup` is the version of the one that was built, `cryptsetup_queue_hash`
    the queue in it; "" where none was.
    """

    target: str
    queue_hash: str
    state: str
    kernel_release: str
    kernel_flavour: str
    kernel_key: str
    accel: str
    cpu: str
    modules: Mapping[str, str]
    cryptsetup: str
    cryptsetup_queue_hash: str
    tools: Mapping[str, str]


def environment(machine: Machine, accel: str, cryptsetup: Programs | None = None) -> Environment:
    """Ask the programs and the host. Raises CommandError when a program is missing."""
    kernel = machine.kernel
    log = log_dir(kernel.target) / "versions.log"
    versions: dict[str, tuple[str | Path, ...]] = {
        "fio": ("fio", "--version"),
        "qemu": ("qemu-system-x86_64", "--version"),
        "virtme-ng": (host.python_env() / "bin" / "vng", "--version"),
        "cryptsetup": ("/sbin/cryptsetup", "--version"),
        "dmsetup": ("/sbin/dmsetup", "--version"),
    }
    said = {name: run(argv, log=log, timeout=60, check=False).output for name, argv in versions.items()}
    return Environment(
        target=kernel.target,
        queue_hash=machine.tree.queue_hash,
        state=machine.state,
        kernel_release=kernel.release,
        kernel_flavour=kernel.flavour,
        kernel_key=kernel.key,
        accel=accel,
        cpu=cpu_model(CPUINFO.read_text()),
        modules={name: module.source for name, module in machine.modules.items()},
        cryptsetup=cryptsetup.version if cryptsetup else "",
        cryptsetup_queue_hash=cryptsetup.queue_hash if cryptsetup else "",
        tools={name: version(text) for name, text in said.items()},
    )


def version(said: str) -> str:
    """The first line with a version in what a program said; "unknown" when there is none.

    dmsetup also says that it cannot ask the driver, before or after, and names its version there too.
    """
    lines = [line.strip() for line in said.splitlines() if re.search(r"\d\.\d", line)]
    return next((line for line in lines if "ncompatible" not in line), "unknown")


def cpu_model(cpuinfo: str) -> str:
    """The first CPU's name in the text of /proc/cpuinfo; the architecture where it has none."""
    for line in cpuinfo.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write(path: Path, where: Environment, content: Mapping[str, object]) -> Path:
    """Write `content` and its environment to `path`, whole or not at all, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.part")
    fresh.write_text(json.dumps({"environment": asdict(where), **content}, indent=1) + "\n")
    fresh.rename(path)
    return path
