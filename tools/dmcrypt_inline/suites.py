"""What make selftest, make mutants and the guests' half of make test run, and the results they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from .build import Module
from .guest_tests import Guests, TestResult, names, total
from .machine import Machine
from .mutants import GROUP, Mutant, Proof, counts, prove, table
from .paths import build_dir
from .progress import say
from .results import Counts, environment, write
from .targets import get_target

QUICK_SECONDS, FULL_SECONDS = 3600.0, 10800.0  # against a guest that hangs, not to hurry one
CRYPTSETUP_SECONDS = 4800.0
AT_ONCE = 2  # guests: each mostly keeps one CPU busy
SHARES = 4  # for each guest at a time: tests take from seconds to minutes, a boot 20 seconds


def _guests(machine: Machine, stage: str, *, quick: bool) -> Guests:
    """Guests whose runs lie under build/<target>/<stage>."""
    kernel, chosen = machine.kernel, machine.accel()
    out = build_dir(kernel.target) / stage
    say(f"guests with Linux {kernel.release} ({kernel.flavour}, {chosen}); consoles: {out}")
    return Guests(kernel, machine.cryptsetup, chosen, out, quick)


def selftest(machine: Machine, quick: bool, variant: str) -> Counts:
    """The kselftests against a variant, each line as it comes. Writes build/<target>/selftest/results.json."""
    guests = _guests(machine, "selftest", quick=quick)
    seconds = QUICK_SECONDS if quick else FULL_SECONDS
    results = _selftests(guests, machine.modules[variant], seconds, AT_ONCE)
    return _close(machine, guests, "selftest", results, [])


def bisect_check(machine: Machine) -> Counts:
    """The kselftests in their short form on every variant of the machine: the queue's commits, one after the other.

    What only the whole queue mends is tried on the whole queue only.
    """
    guests = _guests(machine, "bisect", quick=True)
    later = {f"{GROUP}/{name}" for name in machine.tree.target.defects}
    results: list[TestResult] = []
    for number, (name, module) in enumerate(machine.modules.items(), 1):
        say(f"{name}, {number} of {len(machine.modules)} that change dm-crypt")
        tests = [test for test in names(GROUP) if name == "series" or test not in later]
        found = _selftests(guests, module, QUICK_SECONDS, AT_ONCE, tests)
        results += [replace(result, name=f"{name}: {result.name}") for result in found]
    return _close(machine, guests, "bisect", results, [])


def mutants(machine: Machine, chosen: Sequence[Mutant]) -> Counts:
    """Each wrong variant against the tests that must catch it; the table of who caught what is the result."""
    guests = _guests(machine, "mutants", quick=True)
    proofs = prove(guests, [(mutant, machine.modules[mutant.name]) for mutant in chosen], at_once=2)
    (guests.out / "caught.txt").write_text(table(proofs))
    return _close(machine, guests, "mutants", [], proofs)


def test(debug: Machine, fast: Machine, sample: Sequence[Mutant]) -> Counts:
    """The quick selftests on the debug kernel and, beside them, all that tells only at its end:

    cryptsetup's tests, with and without the queue in the kernel, and a sample of the mutants.
    """
    guests = _guests(debug, "test", quick=True)
    quiet = _guests(fast, "test", quick=True)
    with ThreadPoolExecutor(1) as pool:  # one guest beside ours, as AT_ONCE
        cryptsetup = pool.submit(_cryptsetup, quiet, fast.modules)
        proofs = pool.submit(prove, guests, [(mutant, debug.modules[mutant.name]) for mutant in sample], 1)
        try:
            results = _selftests(guests, debug.modules["series"], QUICK_SECONDS, 1)
            theirs, skips = cryptsetup.result()
            proved = [*skips, *proofs.result()]
        finally:
            pool.shutdown(cancel_futures=True)
    return _close(debug, guests, "test", [*results, *theirs], proved)


def test_fixes(debug: Machine, found_by: Sequence[str]) -> Counts:
    """The tests `found_by`, in their short form: on the base each finds its defect, on the series none does.

    The whole suite is for `selftest`: one target in make test runs all of it, and that takes its time.
    """
    guests = _guests(debug, "test", quick=True)
    tests = tuple(f"{GROUP}/{name}" for name in found_by)
    proofs = prove(guests, [(Mutant("base", debug.tree.path, tests), debug.modules["base"])], at_once=AT_ONCE)
    results = _selftests(guests, debug.modules["series"], QUICK_SECONDS, AT_ONCE, tests)
    return _close(debug, guests, "test", results, proofs)


def _selftests(
    guests: Guests, module: Module, seconds: float, at_once: int, chosen: Sequence[str] = ()
) -> list[TestResult]:
    """The kselftests, or the `chosen` ones, in `at_once` guests beside each other; each guest has `seconds`.

    In the long form a guest gets few tests and then makes way, so that the last ones end together.
    """
    tests = list(chosen) or names(GROUP)
    shares = at_once if guests.quick else at_once * SHARES

    def share(number: int) -> list[TestResult]:
        out = guests.out / (f"{module.name}-{number}" if shares > 1 else module.name)
        return replace(guests, out=out, on_line=Told(named=at_once > 1)).run(module, tests[number::shares], seconds)

    with ThreadPoolExecutor(at_once) as pool:
        found = {result.name: result for results in pool.map(share, range(shares)) for result in results}
    if module.name == "series":
        lacks = get_target(guests.kernel.target).lacks
        found = {test: replace(each, must_run=Path(test).name not in lacks) for test, each in found.items()}
    return _say_faults([found[test] for test in tests])


class Told:
    """Prints what tests say as it comes; `named`: each line with its test's name, where guests speak by turns."""

    def __init__(self, *, named: bool) -> None:
        self.named = named
        self.test = ""

    def __call__(self, line: str) -> None:
        """Print a line of a guest's output; tests.sh begins each test with "# group/name"."""
        begins = line.removeprefix("# ")
        if begins != line and begins.startswith(f"{GROUP}/"):
            self.test = begins.removeprefix(f"{GROUP}/")
        say(f"    {self.test}: {line}" if self.named and self.test else f"    {line}")


def _cryptsetup(guests: Guests, modules: Mapping[str, Module]) -> tuple[list[TestResult], list[Proof]]:
    """cryptsetup's tests; on the base also the kselftests, which have nothing to test there and must say so."""
    guests = replace(guests, kernel_args=())
    series = replace(guests, out=guests.out / "cryptsetup-series")
    base = replace(guests, out=guests.out / "cryptsetup-base")
    results = series.run(modules["series"], names("cryptsetup"), CRYPTSETUP_SECONDS)
    on_base = base.run(modules["base"], [*names("cryptsetup_on_base"), *names(GROUP)], CRYPTSETUP_SECONDS)
    results += [result for result in on_base if not result.name.startswith(f"{GROUP}/")]
    for result in results:
        found = result.counts
        say(f"    # {result.name}: {found.passed} passed, {found.failed} failed, {found.skipped} skipped")
        for claim in result.report.claims:
            if not claim.ok:
                say(f"    not ok {claim.name}")
    return _say_faults(results), [skips(result) for result in on_base if result.name.startswith(f"{GROUP}/")]


def skips(result: TestResult) -> Proof:
    """A test that cannot tell the base from the queue proves nothing about the queue."""
    skipped = result.report.skip
    if not skipped:
        say(f"not ok {result.name} skips on the base")
    return Proof("base", result.name.partition("/")[2], bool(skipped), f"skipped: {skipped}" if skipped else "it ran")


def _say_faults(results: list[TestResult]) -> list[TestResult]:
    for result in results:
        for fault in result.faults:
            say(f"not ok {result.name}: {fault}")
    return results


def _close(
    machine: Machine, guests: Guests, stage: str, results: Sequence[TestResult], proofs: Sequence[Proof]
) -> Counts:
    """Write what was found and say how it stands."""
    found = total([*(result.counts for result in results), counts(proofs)])
    path = write(
        guests.out / "results.json",
        environment(machine, guests.accel),
        {
            "counts": asdict(found),
            "results": [asdict(result) for result in results],
            "proofs": [asdict(proof) for proof in proofs],
            "config": machine.kernel.config.read_text().splitlines(),
        },
    )
    say(f"{stage}: {found.passed} passed, {found.failed} failed, {found.skipped} skipped; results: {path}")
    return found
