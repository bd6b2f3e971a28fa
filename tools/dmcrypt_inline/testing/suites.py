"""What make selftest, make mutants and the guests' half of make test run, and the results they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from ..common.counts import Counts, total
from ..common.paths import build_dir
from ..common.progress import say
from ..guests.environment import environment, write
from ..guests.guest import indented
from ..guests.machine import Machine
from ..kernels.build import USER_MODE, Module
from ..kernels.build_cryptsetup import Cryptsetup
from ..trees.base import BaseTree
from ..trees.targets import get_target
from .advice import bitlocker_volumes, run_advice
from .guest_tests import Guests, TestResult, is_in_tree, is_kselftest, kselftests, names
from .known_failures import WHY, KnownFailures, failures_of, judge
from .mutants import Mutant, MutantResult, counts, run_mutant

QUICK_SECONDS, FULL_SECONDS = 2400.0, 10800.0  # against a guest that hangs, not to hurry one
SOAK = "functional/soak"
WITHOUT = "cryptsetup_on_base"  # the tests of cryptsetup on a kernel without the queue
AT_ONCE = 2  # guests: each mostly keeps one CPU busy
# kselftests for one guest: they take from seconds to minutes, a boot 20 seconds.
SHARE = {"quick": 6, "full": 3}

Outcome = TestResult | MutantResult
Job = Callable[[], Sequence[Outcome]]


def _guests(machine: Machine, stage: str, *, quick: bool) -> Guests:
    """Guests whose runs lie under build/<target>/<stage>."""
    kernel, chosen = machine.kernel, machine.accel()
    out = build_dir(kernel.target) / stage
    say(f"guests with Linux {kernel.release} ({kernel.flavour}, {chosen}); consoles: {out}")
    return Guests(kernel, None, chosen, out, quick)


def _with_cryptsetup(guests: Guests, cryptsetup: Cryptsetup) -> Guests:
    """Guests with the patched cryptsetup, memory for the hashing of passphrases, and a kernel as it comes."""
    return replace(guests, cryptsetup=cryptsetup, kernel_args=(), memory="3G")


def selftest(machine: Machine, quick: bool, variant: str, tests: Sequence[str]) -> Counts:
    """The kselftests `tests` against a variant, each line as it comes. Writes build/<target>/selftest/results.json."""
    guests = _guests(machine, "selftest", quick=quick)
    return _close(machine, guests, "selftest", _found(_selftests(guests, machine.modules[variant], tests)))


def soak(machine: Machine, minutes: int, seed: int) -> Counts:
    """The test SOAK alone, for so many minutes. Writes build/<target>/soak/results.json."""
    options = {"DM_CRYPT_SOAK_MINUTES": str(minutes), "DM_CRYPT_SOAK_SEED": str(seed)}
    guests = replace(_guests(machine, "soak", quick=False), env=options, on_line=LinesByTest())
    seconds = 2 * (60.0 * minutes + 600.0)
    return _close(machine, guests, "soak", guests.run(machine.modules["series"], [SOAK], seconds))


def of_cryptsetup(machine: Machine, cryptsetup: Cryptsetup, quick: bool, tests: Sequence[str]) -> Counts:
    """cryptsetup's tests `tests`, with and without the queue in the kernel. Writes results.json."""
    guests = _with_cryptsetup(_guests(machine, "cryptsetup", quick=quick), cryptsetup)
    return _close(machine, guests, "cryptsetup", _found(_cryptsetup(guests, machine, tests)))


def bisect_check(machine: Machine) -> Counts:
    """The kselftests in their short form on the base and each other variant: the queue's commits, one after the other.

    A commit is tried in the modes that it has. A case that fails on the base may fail on a commit too, and is
    skipped there, until a commit mends it; on the series nothing may.
    """
    guests = replace(_guests(machine, "bisect", quick=True), any_driver=True)
    results: list[TestResult] = []
    known: dict[str, KnownFailures] = {}
    for number, (name, module) in enumerate(machine.modules.items(), 1):
        say(f"{name}, {number} of {len(machine.modules)}")
        found = [each for each in _found(_selftests(guests, module, kselftests())) if isinstance(each, TestResult)]
        if name == "base":
            known = {each.name: failures_of(each) for each in found}
            continue
        for each in found:
            before = known.get(each.name, KnownFailures())
            judged, known[each.name] = judge(before if name != "series" else KnownFailures(), each)
            if before and not each.counts.failed:
                say(f"{name} mends {each.name}")
            elif known[each.name]:
                say(f"{name}: {each.name} {WHY}")
            results.append(replace(judged, name=f"{name}: {each.name}"))
    return _close(machine, guests, "bisect", results)


def mutants(machine: Machine, chosen: Sequence[Mutant]) -> Counts:
    """Each wrong variant against the tests that must catch it. Writes build/<target>/mutants/results.json."""
    guests = _guests(machine, "mutants", quick=True)
    found = _found(_mutant_jobs(guests, machine, chosen))
    return _close(machine, guests, "mutants", found)


def test(
    machine: Machine, sample: Sequence[Mutant], cryptsetup: Cryptsetup | None, further: Sequence[Job] = ()
) -> Counts:
    """cryptsetup's tests on both drivers, the quick selftests, a sample of the mutants; no kernel is emulated.

    Without a cryptsetup, the rest. `further` jobs run beside them.
    """
    guests = replace(_guests(machine, "test", quick=True), cryptsetup=cryptsetup)
    native = replace(guests, out=guests.out / "native")
    jobs: list[Job] = []
    if cryptsetup:  # the longest first: the last ones end together
        jobs = _cryptsetup(_with_cryptsetup(guests, cryptsetup), machine, cryptsetup_tests())
    jobs += _selftests(native, machine.modules["series"], kselftests())
    found = _found([*jobs, *further, *_mutant_jobs(native, machine, sample)])
    return _close(machine, guests, "test", found)


def advice(machine: Machine, cryptsetup: BaseTree) -> list[Job]:
    """What advise says of mappings on the base, and on the released driver where there is one, and what its advice
    does: jobs for `test` and `test_fixes`.

    `cryptsetup`: whose tests have BitLocker volumes.
    """
    out = build_dir(machine.kernel.target) / "test"
    volumes = bitlocker_volumes(cryptsetup, out)

    def run(module: Module) -> list[TestResult]:
        guests = Guests(machine.kernel, None, machine.accel(), out / f"advise-{module.name}", True)
        return _say_results([run_advice(guests, module, volumes)])

    return [partial(run, machine.modules[name]) for name in ("base", "released") if name in machine.modules]


def test_fixes(debug: Machine, found_by: Sequence[str], further: Sequence[Job] = ()) -> Counts:
    """The tests `found_by`, in their short form: on the base each finds its defect, on the series none does.

    On the series also those of the tree. The rest is for `selftest`: it takes its time. `further` jobs run beside
    them.
    """
    guests = _guests(debug, "test", quick=True)
    tests = tuple(test for test in kselftests() if Path(test).name in found_by)
    on_base = Mutant("base", debug.tree.path, tests)
    on_series = [test for test in kselftests() if test in tests or is_in_tree(test)]
    jobs = [*further, *_selftests(guests, debug.modules["series"], on_series), *_mutant_jobs(guests, debug, [on_base])]
    found = _found(jobs)
    return _close(debug, guests, "test", found)


def _found(jobs: Sequence[Job]) -> list[Outcome]:
    """What the jobs find, by its names; they begin in their order, AT_ONCE at a time, and an error of one ends all."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda job: job(), jobs))
    return sorted((each for some in found for each in some), key=lambda each: each.name)


def _mutant_jobs(guests: Guests, machine: Machine, chosen: Sequence[Mutant]) -> list[Job]:
    return [
        partial(run_mutant, guests, replace(mutant, tests=(test,)), machine.modules[mutant.name])
        for mutant in chosen
        for test in mutant.tests
    ]


def _selftests(guests: Guests, module: Module, tests: Sequence[str]) -> list[Job]:
    """The kselftests `tests` as jobs of one guest each: a guest for those that need the same boot.

    The rarest boots come first, and no guest gets more than SHARE tests, so that the last ones end together.
    """
    by_boot: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for test in tests:
        by_boot.setdefault(guests.boot(test), []).append(test)
    # A boot of User-Mode Linux is cheap, and without instructions for AES a test may leave the next one other ciphers.
    share = 1 if guests.kernel.arch == USER_MODE else SHARE["quick" if guests.quick else "full"]
    parts = []
    for alike in sorted(by_boot.values(), key=len):
        count = -(-len(alike) // share)
        parts += [alike[number::count] for number in range(count)]
    seconds = QUICK_SECONDS if guests.quick else FULL_SECONDS
    lacks = get_target(guests.kernel.target).lacking(guests.kernel.flavour) if module.name == "series" else None

    def run(number: int, part: list[str]) -> list[TestResult]:
        mine = replace(guests, out=guests.out / f"{module.name}-{number}", on_line=LinesByTest())
        found = mine.run(module, part, seconds)
        return found if lacks is None else [_without(lacks, it) for it in found]

    return [partial(run, number, part) for number, part in enumerate(parts)]


def _without(lacks: Sequence[str], found: TestResult) -> TestResult:
    """The result of a test that must run, but for what the kernel lacks: "test", or "test:case", which may fail."""
    name, report = Path(found.name).name, found.report
    cases = {word.removeprefix(f"{name}:") for word in lacks}
    skips = bool(report.skip) or any(case.skip for case in report.cases)
    return replace(judge(KnownFailures(frozenset(cases)), found)[0], must_run=skips and name not in lacks)


class LinesByTest:
    """Prints what tests say as it comes, each line with its test's name: guests speak by turns."""

    def __init__(self) -> None:
        self.test = ""

    def __call__(self, line: str) -> None:
        """Print a line of a guest's output; tests.sh begins each test with "# group/name"."""
        begins = line.removeprefix("# ")
        if begins != line and is_kselftest(begins):
            self.test = Path(begins).name
        say(f"    {self.test}: {line}" if self.test else f"    {line}")


def cryptsetup_tests() -> list[str]:
    """The test files of cryptsetup, as `names` has them: with the queue in the kernel and without."""
    return [*names("cryptsetup"), *names(WITHOUT)]


def _cryptsetup(guests: Guests, machine: Machine, tests: Sequence[str]) -> list[Job]:
    """cryptsetup's tests as jobs: a guest with the queue in the kernel, one without."""

    def run(variant: str, part: Sequence[str]) -> list[TestResult]:
        mine = replace(guests, out=guests.out / f"cryptsetup-{variant}")
        ran = mine.run(machine.modules[variant], part, QUICK_SECONDS if guests.quick else FULL_SECONDS)
        return _say_results([replace(each, must_run=True) for each in ran])

    without = [test for test in tests if test.startswith(f"{WITHOUT}/")]
    others = [test for test in tests if test not in without]
    return [partial(run, *each) for each in (("series", others), ("base", without)) if each[1]]


def _say_results(results: list[TestResult]) -> list[TestResult]:
    for result in results:
        found = result.counts
        say(f"    # {result.name}: {found.passed} passed, {found.failed} failed, {found.skipped} skipped")
        for case in result.report.cases:
            if not case.ok:
                said = (*(f"# {line}" for line in case.diagnostics), f"not ok {case.name}")
                say(indented("\n".join(said)))
    return results


def _close(machine: Machine, guests: Guests, stage: str, outcomes: Sequence[Outcome]) -> Counts:
    """Write what was found and say how it stands."""
    results = [each for each in outcomes if isinstance(each, TestResult)]
    tried = [each for each in outcomes if isinstance(each, MutantResult)]
    for result in results:
        for fault in result.faults:
            say(f"not ok {result.name}: {fault}")
        for warning in result.warnings[:1]:
            say(indented(warning.excerpt))
    found = total([*(result.counts for result in results), counts(tried)])
    path = write(
        guests.out / "results.json",
        environment(machine, guests.accel, guests.cryptsetup),
        {
            "counts": asdict(found),
            "results": [asdict(result) for result in results],
            "mutants": [asdict(each) for each in tried],
            "config": machine.kernel.config.read_text().splitlines(),
        },
    )
    say(f"{stage}: {found.passed} passed, {found.failed} failed, {found.skipped} skipped; results: {path}")
    return found
