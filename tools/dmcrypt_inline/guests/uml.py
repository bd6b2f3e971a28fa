"""How a kernel built as User-Mode Linux runs: as processes of the host, at its speed, with one CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..kernels.build import Kernel

NAME = "guest"  # of the instance, and so of the directory with its pid file


# "stderr" is a console for the boot only; afterwards the first of the others writes there.
MESSAGES = ("stderr=1", "con=null", "con0=null,fd:2")  # to standard error
TERMINAL = ("con=null", "con0=fd:0,fd:1")  # the caller's is the console


def command(
    kernel: Kernel,
    init: Path,
    script: str,
    *,
    share: Path,
    place: Path,
    memory: str,
    kernel_args: Sequence[str],
    console: Sequence[str] = MESSAGES,
) -> list[str | Path]:
    """The command that boots into `init`, which runs `script`.

    share: the directory that the guest may write to. place: a directory for the
    instance's own files (see `pid_file`). memory: as "3G". console: MESSAGES or TERMINAL.
    """
    return [
        kernel.image,
        f"mem={memory}",
        *("root=none", "rootfstype=hostfs", "rootflags=/", "ro"),
        *(*console, f"uml_dir={place}/", f"umid={NAME}"),
        f'init="{init}"',
        # What the kernel does not know and has a "=" becomes part of init's environment.
        f'guest_share="{share}"',
        f"guest_script={script}",
        *kernel_args,
    ]


def pid_file(place: Path) -> Path:
    """Where the instance that was started with `place` says its process number."""
    return place / NAME / "pid"
