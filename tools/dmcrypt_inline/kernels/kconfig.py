"""Kernel configuration: fragments over allnoconfig, merged and checked by the kernel's own merge_config.sh."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..common.errors import UserError
from ..common.run import run

DROPPED = re.compile(r"^Requested value: *(.*)\nActual value: *(.*)\n", re.M)


def requested(fragments: Sequence[Path]) -> list[str]:
    """The lines of the fragments that ask for a value, in order."""
    lines = [line for path in fragments for line in path.read_text().splitlines()]
    return [line for line in lines if line.startswith(("CONFIG_", "# CONFIG_"))]


def configure(source: Path, objects: Path, fragments: Sequence[Path], arguments: Sequence[str], log: Path) -> None:
    """Write `objects`/.config for the kernel `source`; a later fragment wins, `arguments` are make's.

    Raises UserError that lists all options that do not have the value of the fragments: Kconfig drops silently each
    option that it does not know or whose dependencies are missing.
    """
    script = source / "scripts" / "kconfig" / "merge_config.sh"
    said = run(
        ["sh", script, "-n", "-O", objects, *fragments],
        log=log,
        timeout=600,
        cwd=source,
        env={"MAKEFLAGS": " ".join(arguments), "KCONFIG_CONFIG": ""},
    ).output
    # An option that is missing is not set.
    dropped = [(wanted, got) for wanted, got in DROPPED.findall(said) if got or not wanted.endswith("is not set")]
    if dropped:
        lines = [f"  {wanted}: became {got or 'missing'}" for wanted, got in dropped]
        raise UserError("\n".join(["the kernel's configuration is not that of the fragments:", *lines]))
