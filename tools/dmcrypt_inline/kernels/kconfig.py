"""Kernel configuration: fragments over allnoconfig, and the proof that they took effect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..common.errors import UserError

SET = re.compile(r"(CONFIG_\w+)=(.*)")
UNSET = re.compile(r"# (CONFIG_\w+) is not set")
GONE = re.compile(r"# (CONFIG_\w+) is gone")


def parse_config(text: str) -> dict[str, str]:
    """Option -> value of a .config or fragment; later lines win.

    An option said to be not set has the value n; one said to be gone, which this
    tree does not know, has none.
    """
    options: dict[str, str] = {}
    for line in text.splitlines():
        if found := SET.fullmatch(line.strip()):
            options[found[1]] = found[2]
        elif found := UNSET.fullmatch(line.strip()):
            options[found[1]] = "n"
        elif found := GONE.fullmatch(line.strip()):
            options.pop(found[1], None)
    return options


def merge_fragments(fragments: Sequence[Path]) -> dict[str, str]:
    """The options that the fragments ask for; a later fragment wins."""
    return parse_config("\n".join(path.read_text() for path in fragments))


def declared_options(source: Path) -> set[str]:
    """Every option that some Kconfig file of the kernel tree `source` declares, with the prefix CONFIG_."""
    declared: set[str] = set()
    for path in source.rglob("Kconfig*"):
        if path.is_file():
            text = path.read_text(errors="replace")
            declared.update("CONFIG_" + name for name in re.findall(r"^\s*(?:menu)?config\s+(\w+)", text, re.M))
    return declared


def check_config(wanted: dict[str, str], config: str, declared: set[str]) -> None:
    """Raise UserError that lists every wanted option that the tree does not know or that .config has otherwise.

    Kconfig drops silently what it does not know or what lacks a dependency; a
    kernel without it would fail much later, in a guest.
    """
    got = parse_config(config)
    problems = []
    for name, value in wanted.items():
        if name not in declared:
            problems.append(f"{name}={value}: this tree has no such option")
        elif got.get(name, "n") != value:
            problems.append(f"{name}={value}: became {got.get(name, 'n')} (a dependency is missing, or it is forced)")
    if problems:
        raise UserError(
            "the kernel config is not what the fragments ask for:\n" + "\n".join("  " + p for p in problems)
        )
