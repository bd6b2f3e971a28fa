"""The stages `list` and `packages`: targets, tests and mutants, and the packages that the tools need."""

import textwrap
from collections.abc import Iterable
from itertools import groupby

from ..common.host import GROUPS, install_commands, is_installed
from ..common.progress import say
from ..testing.files import kselftests, program_tests
from ..testing.mutants import named
from ..trees.series import parse_series
from ..trees.targets import TARGETS
from .request import Request

WIDTH = 100  # columns


def list_names(request: Request) -> None:
    """Print the names of targets, tests and mutants."""
    say("targets (TARGET=):")
    for target in TARGETS.values():
        patches = len(parse_series(target.series.read_text()))
        say(f"  {target.name:20}{target.upstream}, {target.tag}, {patches} patches")
    tests = [test.partition("/") for test in (*kselftests(), *program_tests())]
    for suite, group in groupby(tests, key=lambda each: each[0]):
        _names(f"tests of {suite} (make selftest TEST=)", (name for _, _, name in group))
    kernels = [target for target in TARGETS.values() if target.is_kernel]
    _names("mutants (make mutants TEST=)", (each.name for target in kernels for each in named(target, ())))


def _names(title: str, names: Iterable[str]) -> None:
    say(f"{title}:")
    text = "  ".join(dict.fromkeys(names))
    say(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


def list_packages(request: Request) -> None:
    """Print the packages that the tools need, and what is missing here."""
    names = dict.fromkeys(name for group in GROUPS.values() for name in group)
    say(install_commands(names))
    missing = [name for name in names if not is_installed(name)]
    say(f"missing here: {' '.join(missing) or 'nothing'}")
