"""The options of stages, and their values from make."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ..common.errors import UserError
from ..guests.guest import COUNTED
from ..guests.machine import UNACCELERATED

ACCELERATORS = {
    "kvm": "KVM",
    "tcg": "QEMU without KVM",
    UNACCELERATED: "User-Mode Linux",
    COUNTED: "QEMU without KVM, with one CPU and a clock that counts instructions",
}


class Parser(argparse.ArgumentParser):
    """argparse, with errors that `main` prints."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError, with options as make takes them, too."""
        names = sorted(name[2:].upper() for name in self._option_string_actions if name.startswith("--"))
        variables = ", ".join(f"{name}=" for name in names if name != "HELP") or "no variable"
        raise UserError(f"{self.prog.partition(' ')[2]}: {message}\n  with make it takes: {variables}")


def option(name: str, text: str, **details: Any) -> argparse.ArgumentParser:
    """A parent for the parsers of those stages that take the option --name; `details` are add_argument's."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument(f"--{name}", help=text, **details)
    return parent


def flag(name: str, text: str) -> argparse.ArgumentParser:
    """An option without a value; make takes NAME=1."""
    return option(name, text, nargs="?", type=int, choices=(0, 1), const=1, default=0, metavar="1")


def names(name: str, text: str, dest: str) -> argparse.ArgumentParser:
    """An option that takes several names in one word."""
    return option(name, text, dest=dest, default="", metavar="'NAME ...'")


def accel(*accelerators: str) -> argparse.ArgumentParser:
    """The option --accel of a stage that runs guests with these accelerators."""
    text = "; ".join(f"{name}: {ACCELERATORS[name]}" for name in accelerators)
    return option("accel", f"{text} (default: kvm if a trial boot works, else tcg)", choices=accelerators)


def number(least: int) -> Callable[[str], int]:
    """The argparse type of integers from `least` on."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no integer from {least} on")
        return int(text)

    return parse


def directory(text: str) -> Path:
    """The argparse type of a user's directory; a shell does not expand the ~ of LINUX=~/src."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error
