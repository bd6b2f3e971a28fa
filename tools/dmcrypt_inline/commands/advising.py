"""The sub-command about the machine that this runs on."""

from __future__ import annotations

from typing import Any

from ..advise import command
from .request import Add, Request


def register(add: Add) -> None:
    """Add the sub-command to the command line."""
    command.add_arguments(add("advise", command.SUMMARY, advise, target="", own=""))


def advise(_request: Request, **given: Any) -> int:
    """What the flags would do here; nothing of a clone is needed for it."""
    return command.run(**given)
