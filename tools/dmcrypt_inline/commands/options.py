"""The options of stages, and their values from make and from the file `settings`."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..common.errors import UserError
from ..common.paths import REPO
from ..guests.guest import COUNTED
from ..guests.machine import UNACCELERATED
from ..trees.targets import KINDS

SETTINGS_FILE = REPO / "settings"
SETTINGS = ("TARGET", "ACCEL", *(kind.variable for kind in KINDS), "JOBS")
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
        raise UserError(f"{self.prog.partition(' ')[2] or 'STAGE'}: {message}\n  with make it takes: {variables}")


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


def accel(accelerators: Sequence[str]) -> argparse.ArgumentParser:
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


def from_make(variables: Iterable[str]) -> list[str]:
    """The options for NAME=value words; an empty value means none."""
    pairs = [word.partition("=") for word in variables]
    return [f"--{name.lower()}={value}" for name, _, value in pairs if value]


def from_settings(parser: argparse.ArgumentParser, accelerators: Sequence[str]) -> list[str]:
    """The options for those settings that a stage takes."""
    taken = parser.parse_args([])
    settings = {name: value for name, value in read_settings().items() if hasattr(taken, name.lower())}
    if settings.get("ACCEL") not in accelerators:
        settings.pop("ACCEL", None)
    return from_make(f"{name}={value}" for name, value in settings.items())


def read_settings() -> dict[str, str]:
    """The NAME=value lines of the file `settings`. Raises UserError for any other line, name or accelerator."""
    found = {}
    lines = SETTINGS_FILE.read_text().splitlines() if SETTINGS_FILE.exists() else []
    for line in lines:
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not equals or name not in SETTINGS or (name == "ACCEL" and value not in ACCELERATORS):
            raise UserError(
                f"{SETTINGS_FILE}: {line}\n  a line is NAME=value, and NAME one of {', '.join(SETTINGS)};"
                f" ACCEL is one of {', '.join(ACCELERATORS)}"
            )
        found[name] = value
    return found
