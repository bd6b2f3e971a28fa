"""How a kernel built as User-Mode Linux runs: as processes of the host, at its speed, with one CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..kernels.build import Kernel

NAME = "guest"  # of the instance, and so of the directory with its pid file


def command(
    kernel: Kernel, init: Path, script: str, *, share: Path, place: Path, memory: str, kernel_args: Sequence[str]
) -> list[str | Path]:
    """The command that boots into `init`, which runs `script`; the kernel's messages go to standard error.

    share: the directory that the guest may write to. place: a directory for the
    instance's own files (see `pid_file`). memory: as "3G".
    """
    return [
        kernel.image,
        f"mem={memory}",
        *("root=none", "rootfstype=hostfs", "rootflags=/", "ro"),
        # "stderr" is a console for the boot only; afterwards the first of the others writes there.
        *("stderr=1", "con=null", "con0=null,fd:2", f"uml_dir={place}/", f"umid={NAME}"),
        f'init="{init}"',
        # What the kernel does not know and has a "=" becomes part of init's environment.
        f'guest_share="{share}"',
        f"guest_script={script}",
        *kernel_args,
    ]


def pid_file(place: Path) -> Path:
    """Where the instance that was started with `place` says its process number."""
    return place / NAME / "pid"
