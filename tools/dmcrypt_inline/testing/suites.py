"""The suites of make selftest, mutants, soak, bisect-check, and of the guest tests in make test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from ..common.counts import Counts, total
from ..common.paths import build_dir
from ..common.progress import say
from ..guests.environment import environment
from ..guests.machine import Machine
from ..guests.runs import new_run
from ..kernels.build import Module
from ..kernels.build_programs import Programs
from ..trees.targets import get_target
from .advice import run_advice
from .files import IN_TREE, WITHOUT_QUEUE, chosen, cryptsetup_tests, group_of, is_named, kselftests
from .guest_tests import Guests, TestResult
from .known_failures import KnownFailures
from .mutants import Mutant, run_mutant
from .results import Earlier, Outcome, earlier_outcomes, say_outcome, store

QUICK_SECONDS, FULL_SECONDS = 2400.0, 10800.0  # against a guest that hangs
SOAK = "functional/soak"
AT_ONCE = 2  # guests at the same time: each mostly keeps one CPU busy
# make test runs these on a stacked queue, which changes how sectors are encrypted; the queue below had the others.
OF_SECTORS = (
    "regressions",
    "aes_xts_is_that_of_openssl",
    "data_same_at_all_sizes",
    "data_same_in_all_modes",
    "keys_leave_memory",
    "keys_wiped_and_set",
    "reads_go_on_in_kcryptd",
    "units_same_in_one_call",
)

Job = Callable[[], Sequence[Outcome]]  # one guest
Judge = Callable[[TestResult], TestResult]


@dataclass(frozen=True)
class Suite:
    """One run of a stage. Its outcomes are compared with those of earlier runs that had the same `settings`."""

    machine: Machine
    stage: str
    guests: Guests
    settings: Mapping[str, object]
    earlier: Earlier

    def run(self, jobs: Iterable[Job]) -> Counts:
        """Run the jobs, print and store their outcomes, and return the sum of their counts."""
        return self.close(self.outcomes(jobs))

    def outcomes(self, jobs: Iterable[Job]) -> list[Outcome]:
        """Run the jobs in their order, AT_ONCE at a time, and print their outcomes. An exception ends all."""

        def run(job: Job) -> Sequence[Outcome]:
            found = job()
            for each in found:
                say_outcome(each, self.earlier)
            return found

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [each for some in pool.map(run, jobs) for each in some]

    def close(self, outcomes: Sequence[Outcome]) -> Counts:
        """Store the outcomes, and print and return the sum of their counts."""
        counts = total([each.counts for each in outcomes])
        content = {
            "environment": asdict(environment(self.machine, self.guests.accel, self.guests.cryptsetup)),
            "config": self.machine.kernel.config.read_text().splitlines(),
        }
        path = store(self.guests.out, self.settings, outcomes, content)
        said = f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
        say(f"{self.stage} ({self.machine.state}): {said}; results: {path}")
        return counts


def _suite(
    machine: Machine, stage: str, *, quick: bool, cryptsetup: Programs | None = None, **settings: object
) -> Suite:
    """A suite with a directory of its own below build/<target>/runs."""
    kernel, accel = machine.kernel, machine.accel()
    place = build_dir(kernel.target)
    settings |= {"quick": quick, "flavour": kernel.flavour, "accel": accel}
    earlier = earlier_outcomes(place, stage, settings)
    out = new_run(place, stage)
    say(f"guests with Linux {kernel.release} ({kernel.flavour}, {accel}, {machine.state}); consoles: {out}")
    return Suite(machine, stage, Guests(kernel, cryptsetup, accel, out, quick), settings, earlier)


def selftest(machine: Machine, quick: bool, variant: str, tests: Sequence[str]) -> Counts:
    """Run the kselftests `tests` against a variant; prints each line of theirs as it comes."""
    suite = _suite(machine, "selftest", quick=quick, variant=variant)
    return suite.run(_selftests(suite.guests, machine.modules[variant], tests))


def soak(machine: Machine, minutes: int, seed: int) -> Counts:
    """Run the soak test for so many minutes."""
    suite = _suite(machine, "soak", quick=False, minutes=minutes)
    options = {"DM_CRYPT_SOAK_MINUTES": str(minutes), "DM_CRYPT_SOAK_SEED": str(seed)}
    guests = replace(suite.guests, env=options)
    seconds = 2 * (60.0 * minutes + 600.0)
    return suite.run([partial(_run_test, guests, machine.modules["series"], SOAK, seconds=seconds)])


def of_cryptsetup(machine: Machine, cryptsetup: Programs, quick: bool, tests: Sequence[str]) -> Counts:
    """Run the tests `tests` of cryptsetup, with the queue in the kernel or without it as each test wants."""
    suite = _suite(machine, "cryptsetup", quick=quick, cryptsetup=cryptsetup)
    return suite.run(_of_cryptsetup(suite.guests, machine, tests))


def bisect_check(machine: Machine) -> Counts:
    """Run the kselftests in their short form on the base, and on each commit of the queue in its order.

    A case that fails on the base may fail on a commit, and counts as skipped there, until a commit fixes it. On the
    series no case may fail. Tests run in the modes that the commit has.
    """
    suite = _suite(machine, "bisect", quick=True)
    guests = replace(suite.guests, any_driver=True)
    known = KnownFailures()
    outcomes: list[Outcome] = []

    def judge(name: str, result: TestResult) -> TestResult:
        if name == "base":
            known.add_base(result)
        else:
            result = _judge_series(guests)(result) if name == "series" else known.excuse(result)
        return replace(result, name=f"{name}: {result.name}")

    for number, (name, module) in enumerate(machine.modules.items(), 1):
        say(f"{name}, {number} of {len(machine.modules)}")
        found = suite.outcomes(_selftests(guests, module, kselftests(), partial(judge, name)))
        outcomes += found if name != "base" else []
    return suite.close(outcomes)


def mutants(machine: Machine, wanted: Sequence[Mutant]) -> Counts:
    """Run each mutant against the tests that must catch it."""
    suite = _suite(machine, "mutants", quick=True)
    return suite.run(_mutants(suite, wanted))


def test_queue(
    machine: Machine,
    sample: Sequence[Mutant],
    cryptsetup: Programs | None,
    excluded: Sequence[str] = (),
) -> Counts:
    """Run the tests of make test for a queue with the flags: the kselftests in their short form, a sample of the
    mutants, advise on the base, and the tests of cryptsetup, if any, with and without the queue in the kernel.
    """
    suite = _suite(machine, "test", quick=True, cryptsetup=cryptsetup)
    jobs: list[Job] = []
    if cryptsetup:  # the longest jobs come first, so that the last ones end together
        jobs += _of_cryptsetup(suite.guests, machine, _without(excluded, cryptsetup_tests()))
    jobs += _selftests(suite.guests, machine.modules["series"], _without(excluded, kselftests()))
    return suite.run([*jobs, *_advice(suite), *_mutants(suite, sample, excluded)])


def test_fixes(
    machine: Machine, found_by: Sequence[str], excluded: Sequence[str] = (), *, with_advice: bool = False
) -> Counts:
    """Run the tests of make test for a queue of fixes: each of the tests `found_by` must fail on the base and pass on
    the series, the tests of the tree must pass on the series. Run advise too if `with_advice`.
    """
    suite = _suite(machine, "test", quick=True)
    tests = _without(excluded, kselftests())
    finding = tuple(test for test in tests if Path(test).name in found_by)
    on_series = [test for test in tests if test in finding or group_of(test) == IN_TREE]
    jobs = [
        *(_advice(suite) if with_advice else []),
        *_selftests(suite.guests, machine.modules["series"], on_series),
    ]
    return suite.run([*jobs, *_mutants(suite, [Mutant("base", machine.tree.path, finding)])])


def test_stacked(machine: Machine, excluded: Sequence[str] = ()) -> Counts:
    """Run the tests of make test for a stacked queue."""
    suite = _suite(machine, "test", quick=True)
    tests = _without(excluded, chosen(kselftests(), OF_SECTORS))
    return suite.run(_selftests(suite.guests, machine.modules["series"], tests))


def _without(excluded: Sequence[str], tests: Sequence[str]) -> list[str]:
    return [test for test in tests if not is_named(test, excluded)]


def _advice(suite: Suite) -> list[Job]:
    """advise in a guest on the base, and on the released driver where there is one."""

    def run(module: Module) -> list[Outcome]:
        name = f"advise-{module.name}"
        guests = replace(suite.guests, cryptsetup=None, out=suite.guests.out / name, on_line=_printer(name))
        return [replace(run_advice(guests, module).outcome, name=name)]

    modules = suite.machine.modules
    return [partial(run, modules[name]) for name in ("base", "released") if name in modules]


def _mutants(suite: Suite, wanted: Sequence[Mutant], excluded: Sequence[str] = ()) -> list[Job]:
    """A guest for each mutant and each test that must catch it."""

    def run(mutant: Mutant, test: str) -> list[Outcome]:
        return [run_mutant(suite.guests, suite.machine.modules[mutant.name], test)]

    return [partial(run, mutant, test) for mutant in wanted for test in _without(excluded, mutant.tests)]


def _selftests(guests: Guests, module: Module, tests: Sequence[str], judge: Judge | None = None) -> list[Job]:
    """The kselftests `tests`. `judge` changes the results; without it, tests must run on the series unless the kernel
    lacks what they need.
    """
    if judge is None and module.name == "series":
        judge = _judge_series(guests)
    return [partial(_run_test, guests, module, test, judge) for test in tests]


def _run_test(
    guests: Guests, module: Module, test: str, judge: Judge | None = None, seconds: float = 0.0
) -> list[Outcome]:
    """Run a test in a guest, and print its lines."""
    out = guests.out / f"{module.name}-{test.replace('/', '-')}"
    own = replace(guests, out=out, on_line=_printer(Path(test).name))
    result = own.run(module, test, seconds or (QUICK_SECONDS if guests.quick else FULL_SECONDS))
    return [(judge(result) if judge else result).outcome]


def _printer(name: str) -> Callable[[str], None]:
    """A function that prints a line with the name of its test: guests print at the same time."""
    return lambda line: say(f"    {name}: {line}")


def _judge_series(guests: Guests) -> Judge:
    target = get_target(guests.kernel.target)
    return partial(excuse_lacking, target.exceptions_in(guests.kernel.flavour))


def excuse_lacking(lacking: Sequence[str], found: TestResult) -> TestResult:
    """The result of a test that must run, with the exceptions of Target.exceptions_in.

    They are "test" for a test that may skip, "test:case" for a case that may fail.
    """
    name, report = Path(found.name).name, found.report
    may_fail = {(found.name, word.removeprefix(f"{name}:")) for word in lacking}
    skips = bool(report.skip) or any(case.skip for case in report.cases)
    return replace(KnownFailures(may_fail).excuse(found), must_run=skips and name not in lacking)


def _of_cryptsetup(guests: Guests, machine: Machine, tests: Sequence[str]) -> list[Job]:
    """The tests of cryptsetup, with the queue in the kernel or without it as each test wants.

    Their guests have memory for the hashing of passphrases, and a kernel with its default settings.
    """
    guests = replace(guests, kernel_args=(), memory="3G")

    def must_run(result: TestResult) -> TestResult:
        return replace(result, must_run=True)

    def module(test: str) -> Module:
        return machine.modules["base" if group_of(test) == WITHOUT_QUEUE else "series"]

    return [partial(_run_test, guests, module(test), test, must_run) for test in tests]
