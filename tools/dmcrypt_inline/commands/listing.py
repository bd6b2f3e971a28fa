"""The stages `list` and `packages`: the names that options take, the settings, and the packages that the tools need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from ..bench import sectors
from ..bench.plans import PLANS
from ..checks.checklist import Queue
from ..checks.queues import queue_checks
from ..checks.sources import source_checks
from ..common.host import GROUPS, install_commands, is_installed
from ..common.jobs import jobs
from ..common.progress import say
from ..testing.files import cryptsetup_tests, kselftests
from ..testing.mutants import mutants
from ..testing.package_guests import SCENARIOS
from ..trees.series import parse_series
from ..trees.targets import TARGETS
from .options import SETTINGS, read_settings
from .request import Request

WIDTH = 100  # columns
KERNELS = [target for target in TARGETS.values() if target.is_kernel]


def show(request: Request) -> int:
    """Print the names that options take, and the settings."""
    settings = read_settings()
    say("settings (the file `settings` in the checkout):")
    for name in SETTINGS:
        default = str(jobs()) if name == "JOBS" else "-"
        say(f"  {name:12}{settings.get(name, default)}")
    say("targets (TARGET=):")
    for target in TARGETS.values():
        patches = len(parse_series(target.series.read_text()))
        say(f"  {target.name:20}{target.upstream} {target.tag}, {patches} patches; {target.variable}=")
    _columns("tests (make selftest TEST=)", _by_suite([*kselftests(), *cryptsetup_tests()]))
    _columns("mutants (make mutants TEST=)", _once({each.name: [it.name for it in mutants(each)] for each in KERNELS}))
    checks = {"sources": [check.name for check in source_checks(Path(), Path())]}
    for target in TARGETS.values():
        queue = Queue(target, partial(request.tree, target))
        checks[target.name] = [check.name for check in queue_checks(queue, Path())]
    _columns("checks (make check CHECK=)", _once(checks))
    _columns("package scenarios (make package-test TEST=)", {"": SCENARIOS})
    _columns("plans (make bench PLAN=)", {"": PLANS, "with ACCEL=native": sectors.NATIVE_PLANS})
    return 0


def _by_suite(tests: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for test in tests:
        suite, _, name = test.partition("/")
        found.setdefault(suite, []).append(name)
    return found


def _once(groups: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The groups without the names that an earlier group has."""
    found: dict[str, list[str]] = {}
    for group, names in groups.items():
        earlier = {name for each in found.values() for name in each}
        found[group] = [name for name in dict.fromkeys(names) if name not in earlier]
    return found


def _columns(title: str, groups: Mapping[str, Iterable[str]]) -> None:
    """Print the names of each group that is not empty in columns."""
    say(f"{title}:")
    for group, names in ((group, list(names)) for group, names in groups.items()):
        if group and names:
            say(f"  {group}:")
        width = max(map(len, names), default=0) + 2
        per_line = max(1, (WIDTH - 4) // width)
        for begin in range(0, len(names), per_line):
            say(f"    {''.join(f'{name:{width}}' for name in names[begin : begin + per_line])}".rstrip())


def packages(request: Request) -> int:
    """Print the packages that the tools need, and what is missing here."""
    names = dict.fromkeys(name for group in GROUPS.values() for name in group)
    say(install_commands(names))
    missing = [name for name in names if not is_installed(name)]
    say(f"missing here: {' '.join(missing) or 'nothing'}")
    return 0
