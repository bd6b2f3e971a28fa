"""The environment of a result: the kernel, the machine and the versions of the tools."""

import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from ..common import host
from ..common.paths import log_dir
from ..common.run import run
from ..kernels.build_programs import Programs
from .machine import Machine

CPUINFO = Path("/proc/cpuinfo")


def environment(machine: Machine, accel: str, cryptsetup: Programs | None = None) -> dict[str, object]:
    """The environment of a result. Raises CommandError when a program is missing.

    `modules` maps a variant's name to the git blob id of its dm-crypt.c, `tools` a program of the host to its version.
    `state`: the tree is "committed", or "uncommitted" when it has edits or commits that the queue lacks.
    `cpu` is the host's. `cryptsetup` is the version that was built, `cryptsetup_queue_hash` its queue; "" without one.
    """
    kernel = machine.kernel
    log = log_dir(kernel.target) / "versions.log"
    versions: dict[str, tuple[str | Path, ...]] = {
        "fio": ("fio", "--version"),
        "qemu": ("qemu-system-x86_64", "--version"),
        "cryptsetup": ("/sbin/cryptsetup", "--version"),
        "dmsetup": ("/sbin/dmsetup", "--version"),
    }
    said = {name: run(argv, log=log, timeout=60, check=False).output for name, argv in versions.items()}
    tools = {name: next(iter(re.findall(r"(?=\S).*\d\.\d.*", text)), "unknown") for name, text in said.items()}
    # virtme-ng takes most of a second to print its version.
    installed = host.python_env().glob("lib/python3*/site-packages/virtme_ng-*.dist-info")
    tools["virtme-ng"] = next((path.name.removesuffix(".dist-info") for path in installed), "unknown")
    return {
        "target": machine.tree.target.name,  # that of the queue; queues of a stack may share a kernel
        "queue_hash": machine.tree.queue_hash,
        "state": machine.state,
        "kernel_release": kernel.release,
        "kernel_flavour": kernel.flavour,
        "kernel_key": kernel.key,
        "accel": accel,
        "cpu": next(iter(re.findall(r"^model name\s*: (.*)", CPUINFO.read_text(), re.M)), platform.machine()),
        "modules": {name: module.source for name, module in machine.modules.items()},
        "cryptsetup": cryptsetup.version if cryptsetup else "",
        "cryptsetup_queue_hash": cryptsetup.queue_hash if cryptsetup else "",
        "tools": tools,
    }


def write_environment(path: Path, where: Mapping[str, object], content: Mapping[str, object]) -> Path:
    """Write `content` and its environment to `path`, and return the path. An interrupted run writes no file."""
    fresh = path.with_name(f".{path.name}.part")
    fresh.write_text(json.dumps({"environment": where, **content}, indent=1) + "\n")
    return fresh.rename(path)
