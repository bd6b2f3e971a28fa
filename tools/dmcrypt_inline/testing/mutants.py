"""Mutants: drivers that are wrong on purpose, and the tests that must catch them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.counts import Counts
from ..common.errors import UserError
from ..kernels.build import Module
from ..trees.targets import Target, stack_below
from .files import IN_TREE, MUTANTS, group_of, kselftests, needs_debug_kernel
from .guest_tests import Guests
from .proof import PROOF_KINDS
from .results import Outcome

GRACE = 2.0  # seconds: one kernel warning is enough
CASE_GRACE = 600.0  # seconds: where a failed case is needed, the test goes on to it, in QEMU on a busy host
SECONDS = 1200.0  # against a guest that hangs
SAMPLE = 4
TRIPS_DEBUG = "Trips emulated"  # a line above a patch's diff
TRIPS = {
    "Trips": "",
    TRIPS_DEBUG: "",
    **{f"Trips {proof}": proof for proof in PROOF_KINDS},
}  # kinds of proof by such lines


@dataclass(frozen=True)
class Mutant:
    """A variant with a patch on top of the series, and the tests that must catch it.

    A test is 'group/name', or 'group/name:case' where one case must fail. Only the debug kernel shows what those in
    `debug_only` look for. `proof` is the name of the only proof that catches it.
    """

    name: str
    patch: Path
    tests: tuple[str, ...]
    debug_only: tuple[str, ...] = ()
    proof: str = ""


def all_mutants(target: Target) -> list[Mutant]:
    """All mutants of a target.

    A stacked queue also has the mutants of the queues below; its own replaces one of the same name.
    """
    places = [MUTANTS / each.name for each in (*stack_below(target), target)]
    patches = {patch.stem: patch for place in places for patch in sorted(place.glob("*.patch"))}
    return [read_mutant(patch) for _, patch in sorted(patches.items())]


def read_mutant(patch: Path) -> Mutant:
    """The mutant of a patch. The line "Trips: <test>[:<case>]..." above its diff names the tests.

    "Trips emulated:" names those that need the debug kernel, where the test file does not say so itself, "Trips rt:"
    those of the proof rt.
    Raises UserError when the patch names no test, or a test that does not exist.
    """
    known = {Path(test).name: test for test in kselftests()}
    tests: dict[str, bool] = {}  # by name: only on the debug kernel
    kinds = set()
    for key, _, rest in (line.partition(":") for line in patch.read_text().splitlines()):
        for name in rest.split() if key in TRIPS else ():
            kinds.add(TRIPS[key])
            file, colon, case = name.partition(":")
            test = known.get(file)
            if test is None:
                raise UserError(f"{patch}: there is no test {file}; the tests are {', '.join(known)}")
            tests[f"{test}{colon}{case}"] = key == TRIPS_DEBUG or needs_debug_kernel(test)
    if not tests:
        raise UserError(f"{patch} needs a line: Trips: <one or more of {', '.join(known)}>, each alone or with :<case>")
    if len(kinds) > 1:
        raise UserError(f"{patch}: make mutants and make prove cannot share a mutant")
    return Mutant(patch.stem, patch, tuple(tests), tuple(test for test, debug in tests.items() if debug), *kinds)


def named(target: Target, wanted: Sequence[str]) -> list[Mutant]:
    """The mutants of make mutants with these names (none given: all). Raises UserError for an unknown one."""
    known = {mutant.name: mutant for mutant in all_mutants(target) if not mutant.proof}
    if unknown := [name for name in wanted if name not in known]:
        raise UserError(f"{target.name} has no mutant {', '.join(unknown)}; its mutants are: {', '.join(known)}")
    return [known[name] for name in wanted or known]


def without_debug_kernel(chosen: Sequence[Mutant]) -> list[Mutant]:
    """The mutants that a kernel without debug options shows, each with the tests that catch it there."""
    kept = [
        replace(mutant, tests=tuple(test for test in mutant.tests if test not in mutant.debug_only))
        for mutant in chosen
    ]
    return [mutant for mutant in kept if mutant.tests]


def sample(target: Target) -> list[Mutant]:
    """A few mutants that need no debug kernel, each with one test, and each with another test.

    The tree's suite is not among the tests: it takes several times as long as others, and is run on the base.
    """
    mutants = reversed(without_debug_kernel(named(target, ())))
    by_test = {test: mutant for mutant in mutants for test in mutant.tests[:1] if group_of(test) != IN_TREE}
    found = [replace(mutant, tests=(test,)) for test, mutant in sorted(by_test.items())]
    return found[:: max(1, len(found) // SAMPLE)][:SAMPLE]


def run_mutant(guests: Guests, module: Module, test: str) -> Outcome:
    """Run one test, or one case of it, against a mutant's module in a guest of its own; passed when it catches it."""
    start = time.monotonic()
    file, _, case = test.partition(":")
    out = guests.out / "-".join(filter(None, (module.name, Path(file).name, case)))
    in_tree = group_of(test) == IN_TREE
    grace = CASE_GRACE if in_tree else GRACE
    quiet = replace(guests, out=out, on_line=None, grace=grace, env={"KTAP_FAIL_FAST": "1"})
    try:
        result = quiet.run(module, file, SECONDS)
    except UserError as error:
        caught, found = False, [str(error)]
    else:
        failed = [it.name for it in result.report.cases if not it.ok and (not case or it.name.split()[0] == case)]
        found = [*(warning.first for warning in result.warnings[:1]), *failed[:1], "found nothing"]
        # A test of the tree must show the defect in its own output: its users may not read the kernel log.
        caught = bool(failed) if case or in_tree else result.found_defect
    counts = Counts(int(caught), int(not caught), 0)
    return Outcome(f"{Path(test).name} catches {module.name}", counts, time.monotonic() - start, found[0])
