"""The test files of selftests/: their names, and the lines at their tops that say how to run them."""

import os
from collections.abc import Sequence
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import REPO

TESTS = REPO / "selftests"  # one directory a group; the files that are not executable are sourced
MUTANTS = TESTS / "mutants"  # patches, not tests; no guest needs them
KSELFTESTS = ("dm-crypt", "functional")  # the groups that test the driver alone
IN_TREE = KSELFTESTS[0]  # the group that the queues add to the kernel tree
CRYPTSETUP, WITHOUT_QUEUE = "cryptsetup", "cryptsetup_on_base"  # tests of cryptsetup; the kernel has the queue, or not
OTHERS = ("dracut", "systemd")  # tests of these programs

# The tests of the tree must find their defects on a kernel with its default settings.
IN_TREE_ARGUMENTS = ("cryptd.cryptd_max_cpu_qlen=1000",)


def test_names(group: str) -> list[str]:
    """The test files of a group, as 'group/name', in the order in which they run."""
    found = sorted((TESTS / group).glob("*.sh"))
    return [f"{group}/{path.stem}" for path in found if os.access(path, os.X_OK)]


def kselftests() -> list[str]:
    """The tests of the driver, as 'group/name'."""
    return [name for group in KSELFTESTS for name in test_names(group)]


def cryptsetup_tests() -> list[str]:
    """The tests of cryptsetup, as 'group/name'."""
    return [*test_names(CRYPTSETUP), *test_names(WITHOUT_QUEUE)]


def program_tests() -> list[str]:
    """The tests of cryptsetup and of other programs, as 'group/name'."""
    return [*cryptsetup_tests(), *(name for group in OTHERS for name in test_names(group))]


def group_of(test: str) -> str:
    """The group of a test 'group/name'."""
    return test.partition("/")[0]


def groups() -> dict[str, Path]:
    """The directories of TESTS that a guest gets, by their names below $INPUT."""
    return {f"tests/{place.name}": place for place in TESTS.iterdir() if place != MUTANTS}


def provoked(test: str) -> tuple[str, ...]:
    """Patterns of the warnings that a test provokes: the lines "# Provokes: " at its top."""
    return _values(test, "# Provokes: ")


def kernel_arguments(test: str) -> tuple[str, ...]:
    """Kernel arguments that replace the usual ones: the lines "# Kernel arguments: " at the top of the test."""
    return IN_TREE_ARGUMENTS if group_of(test) == IN_TREE else _values(test, "# Kernel arguments: ")


def cpus(test: str) -> int | None:
    """The number of CPUs that a test needs: the line "# CPUs: " at its top."""
    given = _values(test, "# CPUs: ")
    return int(given[0]) if given else None


def needs_debug_kernel(test: str) -> bool:
    """Only the debug kernel shows what the test looks for: the line "# Guest: emulated" is at its top."""
    return "emulated" in _values(test, "# Guest: ")


def _values(test: str, key: str) -> tuple[str, ...]:
    lines = (TESTS / f"{test}.sh").read_text().splitlines()
    return tuple(line.removeprefix(key) for line in lines if line.startswith(key))


def is_named(test: str, words: Sequence[str]) -> bool:
    """One of the words is the test's name, its group, or both as 'group/name'."""
    return not {test, *test.split("/")}.isdisjoint(words)


def chosen(known: Sequence[str], wanted: Sequence[str], excluded: Sequence[str] = ()) -> list[str]:
    """The `known` tests that are wanted (all when none is named) and not excluded, by name or group.

    Raises UserError for a word that names no test, and when no test is left.
    """
    words = [*wanted, *excluded]
    if unknown := [word for word in words if not any(is_named(test, [word]) for test in known)]:
        raise UserError("\n    ".join([f"there is no test {', '.join(unknown)}\n  the tests are:", *known]))
    found = [test for test in known if (not wanted or is_named(test, wanted)) and not is_named(test, excluded)]
    if not found:
        raise UserError("EXCLUDE= leaves no test to run")
    return found
