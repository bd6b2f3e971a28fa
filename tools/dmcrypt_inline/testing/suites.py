"""The suites of make selftest, mutants, prove, bisect-check, and make test: tests in guests, two at a time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..common.counts import Counts, total
from ..common.paths import build_dir
from ..common.progress import say
from ..guests.environment import environment
from ..guests.machine import Machine
from ..guests.runs import new_run
from ..kernels.build_programs import Programs
from ..trees.targets import get_target
from .files import WITHOUT_QUEUE, cryptsetup_tests, group_of, kselftests
from .guest_tests import Guests, TestResult, run_advice
from .ktap import Report
from .mutants import Mutant, run_mutant
from .results import Outcome, earlier_outcomes, say_outcome, store

QUICK_SECONDS, FULL_SECONDS = 2400.0, 10800.0  # against a guest that hangs
AT_ONCE = 2  # guests at the same time: each mostly keeps one CPU busy

OWN_SUITE_WITHOUT_QUEUE = f"{WITHOUT_QUEUE}/own_suite"

WHY = "fails as on the base"
ANY = ""  # in place of a case: other faults of the test, and cases that were not reached yet
Known = dict[str, bool]  # by case of a test: True where it may fail

Job = Callable[[], Outcome]  # one guest
Judge = Callable[[TestResult], TestResult]


class Suite:
    """One run of a stage, in a directory of its own below build/<target>/runs.

    Its outcomes are compared with those of earlier runs that had the same `settings`. `guests` are those of its tests,
    which find the variables `env`.
    """

    def __init__(
        self,
        machine: Machine,
        stage: str,
        *,
        quick: bool = True,
        cryptsetup: Programs | None = None,
        env: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        kernel, accel = machine.kernel, machine.accel()
        place = build_dir(kernel.target)
        self.machine, self._stage = machine, stage
        self._settings = settings | {"quick": quick, "flavour": kernel.flavour, "accel": accel}
        self._earlier = earlier_outcomes(place, stage, self._settings)
        self.guests = Guests(kernel, cryptsetup, accel, new_run(place, stage), quick, env=env or {})
        where = f"Linux {kernel.release} ({kernel.flavour}, {accel}, {machine.state})"
        say(f"guests with {where}; consoles: {self.guests.out}")

    def run(self, jobs: Iterable[Job]) -> Counts:
        """Run the jobs, print and store their outcomes, and return the sum of their counts."""
        return self.close(self.outcomes(jobs))

    def outcomes(self, jobs: Iterable[Job]) -> list[Outcome]:
        """Run the jobs in their order, AT_ONCE at a time, and print their outcomes. An exception ends all.

        Guests with more CPUs than that run alone: two of them would be several times as slow.
        """

        def run(job: Job) -> Outcome:
            outcome = job()
            say_outcome(outcome, self._earlier)
            return outcome

        with ThreadPoolExecutor(1 if self.guests.fixed_cpus > AT_ONCE else AT_ONCE) as pool:
            return list(pool.map(run, jobs))

    def close(self, outcomes: Sequence[Outcome]) -> Counts:
        """Store the outcomes, and print and return the sum of their counts."""
        counts = total([each.counts for each in outcomes])
        content = {
            "environment": environment(self.machine, self.guests.accel, self.guests.cryptsetup),
            "config": self.machine.kernel.config.read_text().splitlines(),
        }
        path = store(self.guests.out, self._settings, outcomes, content)
        said = f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
        say(f"{self._stage} ({self.machine.state}): {said}; results: {path}")
        return counts

    def kselftests(
        self, tests: Sequence[str], variant: str = "series", judge: Judge | None = None, seconds: float = 0.0
    ) -> list[Job]:
        """The jobs that run these kselftests against a variant.

        `judge` changes the results; without it, a test must run on the series unless the kernel lacks what it needs.
        """
        if judge is None and variant == "series":
            judge = self.judge_series
        return [partial(self._run_test, self.guests, variant, test, judge, seconds) for test in tests]

    def cryptsetup_tests(self, tests: Sequence[str]) -> list[Job]:
        """The jobs that run these tests of cryptsetup, with the queue in the kernel or without it as each test wants.

        Their guests have memory for the hashing of passphrases, and a kernel with its default settings.
        """
        guests = replace(self.guests, kernel_args=(), memory="3G")
        must_run = partial(replace, must_run=True)
        variants = {test: "base" if group_of(test) == WITHOUT_QUEUE else "series" for test in tests}
        return [partial(self._run_test, guests, variant, test, must_run) for test, variant in variants.items()]

    def mutants(self, wanted: Sequence[Mutant]) -> list[Job]:
        """The jobs that run each mutant against each test that must catch it."""
        modules = self.machine.modules
        return [
            partial(run_mutant, self.guests, modules[mutant.name], test) for mutant in wanted for test in mutant.tests
        ]

    def advice(self) -> Outcome:
        """Run advise on the base."""
        name = "advise-base"
        guests = replace(self.guests, cryptsetup=None, out=self.guests.out / name, on_line=printer(name))
        return replace(run_advice(guests, self.machine.modules["base"]).outcome, name=name)

    def judge_series(self, found: TestResult) -> TestResult:
        """The result of a test on the series, where only what the kernel lacks may fail or skip."""
        kernel = self.guests.kernel
        return excuse_lacking(get_target(kernel.target).exceptions_in(kernel.flavour), found)

    def _run_test(self, guests: Guests, variant: str, test: str, judge: Judge | None, seconds: float = 0.0) -> Outcome:
        """Run a test in a guest, and print its lines."""
        out = guests.out / f"{variant}-{test.replace('/', '-')}"
        own = replace(guests, out=out, on_line=printer(Path(test).name))
        seconds = seconds or (QUICK_SECONDS if guests.quick else FULL_SECONDS)
        result = own.run(self.machine.modules[variant], test, seconds)
        return (judge(result) if judge else result).outcome


def test_queue(
    machine: Machine,
    tests: Sequence[str],
    *,
    mutants: Sequence[Mutant] = (),
    cryptsetup: Programs | None = None,
    with_advice: bool = False,
) -> Counts:
    """Run the tests of make test for a queue: `tests` on the series in their short form, and `mutants`.

    With `cryptsetup`, run its tests, too, except for the slow one of its own suite without the queue in the kernel. If
    `with_advice`, run advise on the base.
    """

    suite = Suite(machine, "test", cryptsetup=cryptsetup)
    jobs: list[Job] = []
    if cryptsetup:  # the longest jobs come first, so that the last ones end together
        jobs += suite.cryptsetup_tests([test for test in cryptsetup_tests() if test != OWN_SUITE_WITHOUT_QUEUE])
    jobs += suite.kselftests(tests)
    if with_advice:
        jobs.append(suite.advice)
    return suite.run([*jobs, *suite.mutants(mutants)])


def test_each_commit(machine: Machine) -> Counts:
    """Run the kselftests in their short form on the base, and on each commit of the queue in its order.

    A case that fails on the base may fail on a commit, and counts as skipped there, until a commit fixes it. On the
    series no case may fail. Tests run in the modes that the commit has.
    """
    suite = Suite(machine, "bisect", env={"DM_CRYPT_ANY_DRIVER": "1"})  # no skip where the driver lacks the flags
    later = get_target(machine.kernel.target).later
    known: dict[str, Known] = {}
    outcomes: list[Outcome] = []

    def judge(name: str, result: TestResult) -> TestResult:
        test = result.name
        if name == "base":
            known[test] = failures(result) | {case: True for each, case in later if each == test}
        else:
            result = suite.judge_series(result) if name == "series" else excuse(result, known[test])
        return replace(result, name=f"{name}: {test}")

    for number, name in enumerate(machine.modules, 1):
        say(f"{name}, {number} of {len(machine.modules)}")
        found = suite.outcomes(suite.kselftests(kselftests(), name, partial(judge, name)))
        outcomes += found if name != "base" else []
    return suite.close(outcomes)


def printer(name: str) -> Callable[[str], None]:
    """A function that prints a line with the name of its test: guests print at the same time."""
    return lambda line: say(f"    {name}: {line}")


def failures(base: TestResult) -> Known:
    """The failures of the base, which commits may have."""
    return {case.name: not case.ok for case in base.report.cases} | {ANY: bool(base.faults)}


def excuse(found: TestResult, known: Known) -> TestResult:
    """The result with its known failures as skips. Failures that it does not have are fixed: `known` loses them."""
    old, cases = found.report, []
    excused = bool(found.faults) and known.get(ANY, False)
    for case in old.cases:
        known[case.name] = not case.ok and known.get(case.name, known.get(ANY, False))
        cases.append(replace(case, ok=True, skip=WHY) if known[case.name] else case)
    known[ANY] = excused
    if excused:
        report = Report(WHY, tuple(cases), ())
        return replace(found, report=report, status=report.exit_status, warnings=())
    report = replace(old, cases=tuple(cases))
    return replace(found, report=report, status=report.exit_status if found.status == old.exit_status else found.status)


def excuse_lacking(lacking: Sequence[str], found: TestResult) -> TestResult:
    """The result of a test that must run, with the exceptions of Target.exceptions_in.

    They are "test" for a test that may skip, "test:case" for a case that may fail.
    """
    name, report = Path(found.name).name, found.report
    may_fail = {word.removeprefix(f"{name}:"): True for word in lacking}
    skips = bool(report.skip) or any(case.skip for case in report.cases)
    return replace(excuse(found, may_fail), must_run=skips and name not in lacking)
