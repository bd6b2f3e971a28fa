"""The options of stages, and their values from the command line, from make and from the file `settings`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..common.errors import UserError
from ..common.paths import REPO
from ..guests.guest import COUNTED
from ..guests.machine import UNACCELERATED
from ..trees.targets import DEFAULT, TARGETS

SETTINGS_FILE = REPO / "settings"
SETTINGS = ("TARGET", "ACCEL", "LINUX", "CRYPTSETUP", "JOBS")
VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
ACCELERATORS = {
    "kvm": "KVM",
    "tcg": "QEMU without KVM",
    UNACCELERATED: "User-Mode Linux",
    COUNTED: "QEMU without KVM, with one CPU and a clock that counts instructions",
}


@dataclass(frozen=True)
class Option:
    """`--name` on the command line, NAME= for make; `details` are further arguments of argparse's add_argument."""

    name: str
    help: str
    details: Mapping[str, Any]

    @property
    def variable(self) -> str:
        """The option's name for make."""
        return self.name.upper().replace("-", "_")

    def words(self, value: str) -> list[str]:
        """The option and its value for argparse; nothing for an empty value. Raises UserError for a bad flag."""
        if not value:
            return []
        if self.details.get("action") != "store_true":
            return [f"--{self.name}={value}"]
        if value not in ("0", "1"):
            raise UserError(f"{self.variable}={value}: give 1, or leave it out")
        return [f"--{self.name}"] if value == "1" else []


def option(name: str, text: str, **details: Any) -> Option:
    """An option with argparse's `details`."""
    return Option(name, text, details)


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


def target(default: str) -> Option:
    """The option --target of a stage."""
    return option("target", f"one of {', '.join(TARGETS)} (default: {default})")


def accel(*names: str) -> Option:
    """The option --accel of a stage that runs guests."""
    text = "; ".join(f"{name}: {ACCELERATORS[name]}" for name in names)
    return option("accel", f"{text} (default: kvm if a trial boot works, else tcg)", choices=names)


TARGET = target(DEFAULT)
LINUX = option("linux", "your kernel checkout; the tools only read it", metavar="DIR", type=directory)
CRYPTSETUP = option("cryptsetup", "your cryptsetup checkout; the tools only read it", metavar="DIR", type=directory)
JOBS = option("jobs", "how many compilers or tests run at once (default: all CPUs)", metavar="N", type=number(1))


class Parser(argparse.ArgumentParser):
    """argparse with errors that name make's variables, too."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        named = re.sub(r"^argument --([\w-]+)", lambda found: f"{found[1].upper().replace('-', '_')}=", message)
        raise UserError(f"{named}\n  {self.prog} --help lists the options")


def add_options(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Add a stage's options to its parser."""
    for each in options:
        name = each.name if "nargs" in each.details else f"--{each.name}"
        parser.add_argument(name, help=each.help, **each.details)


def variables(words: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    """The NAME=value words at the beginning, and the other words."""
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        match = VARIABLE.fullmatch(word)
        if match is None:
            return found, words[number:]
        found[match[1]] = match[2]
    return found, []


def from_make(stage: str, options: Sequence[Option], given: Mapping[str, str]) -> list[str]:
    """The words of the command line for make's variables. Raises UserError for one that the stage does not take."""
    known = {each.variable: each for each in options}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UserError(
            f"make {stage} does not take {', '.join(f'{name}=' for name in unknown)}\n"
            f"  it takes: {', '.join(f'{name}=' for name in known) or 'no variable'}"
        )
    return [word for name, value in given.items() for word in known[name].words(value)]


def from_settings(options: Sequence[Option]) -> list[str]:
    """The words of the command line for those settings that the stage takes. Raises UserError as read_settings does."""
    settings = read_settings()
    words = []
    for each in options:
        value = settings.get(each.variable, "")
        if value in each.details.get("choices", (value,)):
            words += each.words(value)
    return words


def read_settings() -> dict[str, str]:
    """The NAME=value lines of the file `settings`. Raises UserError for a line that is none, or an unknown name."""
    found = {}
    lines = SETTINGS_FILE.read_text().splitlines() if SETTINGS_FILE.exists() else []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        name, separator, value = (part.strip() for part in line.partition("="))
        if not separator or name not in SETTINGS:
            raise UserError(f"{SETTINGS_FILE}:{number}: {line}\n  a line is NAME=value, and NAME {', '.join(SETTINGS)}")
        if name == "ACCEL" and value not in ACCELERATORS:
            raise UserError(f"{SETTINGS_FILE}:{number}: {line}\n  ACCEL is one of {', '.join(ACCELERATORS)}")
        found[name] = value
    return found
