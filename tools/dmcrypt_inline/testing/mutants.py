"""Drivers that are wrong on purpose, and the tests that must find them so: what cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.counts import Counts
from ..common.errors import UserError
from ..common.progress import say
from ..kernels.build import Module
from ..trees.targets import Target, stack_below
from .guest_tests import MUTANTS, Guests, is_in_tree, kselftests, wants_emulation

GRACE = 2.0  # seconds: one warning proves it
CASE_GRACE = 600.0  # seconds: where a warning does not, for the case to come to its end, emulated on a busy host
SECONDS = 1200.0  # against a guest that hangs
SAMPLE = 4
TRIPS, EMULATED = "Trips", "Trips emulated"  # at the top of a patch


@dataclass(frozen=True)
class Mutant:
    """A wrong variant: its patch on top of the series, and the tests that have to find it wrong.

    A test is 'group/name', or 'group/name:case' where one case has to. Those in `emulated` see it on the debug
    kernel only.
    """

    name: str
    patch: Path
    tests: tuple[str, ...]
    emulated: tuple[str, ...] = ()

    def named(self, *words: str) -> tuple[str, ...]:
        """Those of its tests that words mean: all by the mutant's name, one by its own, with group and case or not."""
        return tuple(
            test
            for test in self.tests
            if {self.name, test, Path(test).name, _file(test), Path(_file(test)).name}.intersection(words)
        )


@dataclass(frozen=True)
class MutantResult:
    """A mutant against one of its tests; `found` is what the test, or the kernel, said."""

    mutant: str
    test: str
    caught: bool
    found: str

    @property
    def name(self) -> str:
        """What was caught: the test and what it found wrong."""
        return f"{self.mutant} {self.test}"


def mutants(target: Target) -> list[Mutant]:
    """All of the target's. The line "Trips: <test>[:<case>]..." above a patch's diff names the tests.

    "Trips emulated:" names those that need the debug kernel, where the test file does not say so itself.
    A stacked queue has those of the queue below, too; one of its own of the same name stands for one that does not
    apply to it. Raises UserError as must_trip does.
    """
    places = [MUTANTS / each.name for each in (*stack_below(target), target)]
    patches = {patch.stem: patch for place in places for patch in sorted(place.glob("*.patch"))}
    return [
        Mutant(name, patch, must_trip(patch), must_trip(patch, (EMULATED,))) for name, patch in sorted(patches.items())
    ]


def named(target: Target, wanted: Sequence[str]) -> list[Mutant]:
    """The target's mutants by their names, or by tests that must catch them, then by these alone; all for none.

    Raises UserError for a word that is neither.
    """
    known = mutants(target)
    for word in wanted:
        if not any(mutant.named(word) for mutant in known):
            there = "\n".join(f"    {mutant.name}: {', '.join(mutant.tests)}" for mutant in known)
            raise UserError(
                f"TEST={word} is no wrong driver in {MUTANTS / target.name}, nor a test that must catch one\n{there}"
            )
    if not wanted:
        return known
    return [replace(mutant, tests=mutant.named(*wanted)) for mutant in known if mutant.named(*wanted)]


def without_emulation(chosen: Sequence[Mutant]) -> list[Mutant]:
    """Those that a kernel without debugging aids shows to be wrong, each with the tests that do it there."""
    kept = [
        replace(
            it, tests=tuple(each for each in it.tests if each not in it.emulated and not wants_emulation(_file(each)))
        )
        for it in chosen
    ]
    return [mutant for mutant in kept if mutant.tests]


def _file(test: str) -> str:
    """The file, as 'group/name', of a test with or without a case."""
    return test.partition(":")[0]


def sample(target: Target) -> list[Mutant]:
    """A few mutants that need no emulation, each for a test of its own."""
    by_test = {mutant.tests[0]: mutant for mutant in reversed(without_emulation(mutants(target)))}
    found = [replace(mutant, tests=(test,)) for test, mutant in sorted(by_test.items())]
    return found[:: max(1, len(found) // SAMPLE)][:SAMPLE]


def must_trip(patch: Path, words: Sequence[str] = (TRIPS, EMULATED)) -> tuple[str, ...]:
    """The tests that have to fail with a wrong variant, as 'group/name' or 'group/name:case'.

    Raises UserError when the patch names none after any of the `words`, or one that does not exist.
    """
    known = {Path(test).name: test for test in kselftests()}
    lines = [line.partition(":") for line in patch.read_text().splitlines()]
    named = [name for word, _, rest in lines if word in words for name in rest.split()]
    if (TRIPS in words and not named) or not all(name.partition(":")[0] in known for name in named):
        raise UserError(
            f"{patch} does not say which test must fail\n"
            f"  it needs a line: {TRIPS}: <one or more of {', '.join(known)}>, each alone or with :<case>"
        )
    return tuple("".join((known[file], *case)) for file, *case in (name.partition(":") for name in named))


def run_mutant(guests: Guests, mutant: Mutant, module: Module) -> list[MutantResult]:
    """Run a mutant's module against each of its tests, in guests of their own; says one line a result."""
    return [_run_one(guests, module, test) for test in mutant.tests]


def _run_one(guests: Guests, module: Module, test: str) -> MutantResult:
    name = Path(test).name
    file, _, case = name.partition(":")
    out = guests.out / "-".join(filter(None, (module.name, file, case)))
    grace = CASE_GRACE if is_in_tree(_file(test)) else GRACE
    quiet = replace(guests, out=out, on_line=None, grace=grace, fail_fast=True)
    try:
        [ran] = quiet.run(module, [_file(test)], SECONDS)
    except UserError as error:
        result = MutantResult(module.name, name, False, str(error))
    else:
        wrong = [it.name for it in ran.report.cases if not it.ok and (not case or it.name.split()[0] == case)]
        found = [*(warning.first for warning in ran.warnings[:1]), *wrong[:1]]
        # Who runs a test in the tree has nobody beside it who reads the console.
        caught = bool(wrong) if case or is_in_tree(test) else ran.tripped
        result = MutantResult(module.name, name, caught, found[0] if found else "nothing")
    say(f"{'ok' if result.caught else 'not ok'} {name} finds {module.name} wrong: {result.found}")
    return result


def counts(results: Sequence[MutantResult]) -> Counts:
    """A result that succeeded has passed."""
    caught = sum(result.caught for result in results)
    return Counts(caught, len(results) - caught, 0)
