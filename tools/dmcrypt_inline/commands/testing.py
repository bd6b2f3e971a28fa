"""The stages that check and test a queue."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..checks.checklist import Check, Queue, run_checks
from ..checks.linux import style_check
from ..checks.queues import mail_checks, queue_checks
from ..checks.sources import source_checks
from ..common.counts import Counts, total
from ..common.errors import UserError
from ..common.host import ensure_packages, enter_python_env, install_packages, python_env
from ..common.paths import BUILD, TOOLS, build_dir
from ..common.progress import say, step
from ..common.run import jobs, run
from ..guests.guest import open_shell
from ..guests.machine import UNACCELERATED
from ..guests.runs import new_run
from ..kernels.build import build_kernel, build_variant, prepare_kernel
from ..kernels.build_programs import build_programs
from ..testing import package_guests
from ..testing.files import IN_TREE, chosen, group_of, groups, kselftests, program_tests, test_names
from ..testing.mutants import Mutant, all_mutants, named, sample, without_debug_kernel
from ..testing.outside import compare, flavour_of, wanted_tests
from ..testing.proof import PROOF_KINDS, record
from ..testing.results import earlier_outcomes, run_parts, store
from ..testing.suites import FULL_SECONDS, Suite, test_each_commit, test_queue
from ..trees.package import default_version
from ..trees.series import Tree
from ..trees.targets import DEFAULT, NATIVE, PROCESSORS, TARGETS, Target, get_target, stack_below, top_of_stack
from .machines import machine_as_it_stands, make_machine, patched_cryptsetup, steps
from .queue import packaged
from .request import Request

Parts = dict[str, Callable[[], object]]
# make test runs these on a stacked queue, which changes how sectors are encrypted; the queue below had the others.
OF_SECTORS = (
    "regressions",
    "aes_xts_is_that_of_openssl",
    "data_same_at_all_sizes",
    "data_same_in_all_modes",
    "flags_and_keys_change_under_io",
    "keys_leave_memory",
    "reads_go_on_in_kcryptd",
    "units_same_in_one_call",
)

# What make test runs of two kinds of proof, with the uppermost queue.
SAMPLED = TARGETS["linux-7.3-dm"]
SAMPLES = {
    "rt": test_names(IN_TREE),
    "s390x": ["functional/stored_data_never_changes", "functional/units_same_in_one_call"],
}


def check(request: Request, only: str) -> int:
    """Run the checks that need no guest; status 1 when one failed."""
    targets, wanted = request.targets(), only.split()
    groups = _checks(targets, request)
    every = [each for checks in groups.values() for each in checks]
    known = sorted({each.name for each in every})
    if unknown := [name for name in wanted if name not in known]:
        raise UserError("\n    ".join([f"there is no check {', '.join(unknown)}\n  the checks are:", *known]))
    install_packages("base", "check", "slow", *_builds(targets))
    if wanted:
        return _close(run_checks([each for each in every if each.name in wanted]))
    _make_trees(targets, request)
    results = run_parts({name: partial(run_checks, checks) for name, checks in groups.items()}, {})
    return _close(total([each.counts for each in results]))


def test(request: Request) -> int:
    """Run the checks, the tools' tests, and the guest tests on the debug kernels; status 1 when anything failed."""
    targets = request.targets()
    # The tree of the uppermost queue of a stack contains those between it and the lowest.
    kernels = [
        (target, target.tested)
        for target in targets
        if target.is_kernel and (request.target_name or not target.below or target == top_of_stack(target))
    ]
    long_term = [] if request.target_name else [target for target in TARGETS.values() if target.long_term]
    kernels += [(target, NATIVE) for target in long_term]

    groups = _checks(targets, request, quick=True)
    for target in long_term:
        queue = _queue(target, request)
        groups[f"mails_of_{target.name}"] = [*mail_checks(queue, python_env()), style_check(queue)]
    checks: Parts = {"tools_tests": run_own_tests}
    checks |= {name: partial(run_checks, group, True) for name, group in groups.items()}
    if DEFAULT in {target.name for target, _ in kernels}:  # its guests test cryptsetup too
        checks["build_of_cryptsetup"] = partial(patched_cryptsetup, request)
    if not request.target_name:
        checks["package"] = lambda: packaged(request, default_version())
    guests: Parts = {
        f"guest_tests_of_{target.name}": partial(_in_guests, target, flavour, request) for target, flavour in kernels
    }
    if not request.target_name and not request.own:
        guests |= {f"sample_of_{what}": partial(_sample, what, request) for what in SAMPLES}
        kernels += [(SAMPLED, PROOF_KINDS[what].flavour) for what in SAMPLES]

    foreign = {flavour for _, flavour in kernels}.intersection(PROCESSORS)
    install_packages("base", "build", "check", "cryptsetup", "guest", *_builds(targets), *foreign)
    settings = {"target": request.target_name or "all"}
    earlier = earlier_outcomes(BUILD, "test", settings)
    out = new_run(BUILD, "test")
    with ThreadPoolExecutor(1) as pool:
        _make_trees([*targets, *long_term], request)
        # The checks keep less than two CPUs busy, so the kernels are built at the same time.
        building = pool.submit(_build_kernels, kernels, request)
        results = run_parts(checks, earlier)
        building.exception()  # waits; the guest tests that need a kernel report why it was not built
        results += run_parts(guests, earlier)
    store(out, settings, results, {})
    return _close(total([each.counts for each in results]))


def run_own_tests() -> None:
    """Run the tools' own tests. Raises UserError when one fails or skips: `make test` has installed all they need."""
    log = BUILD / "pytest.log"
    pytest = (python_env() / "bin" / "python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", str(jobs()))
    with step("running the tools' own tests", log):
        done = run(pytest, log=log, timeout=600, cwd=TOOLS, check=False)
    summary = done.output.strip().rpartition("\n")[2]
    if done.returncode != 0 or " skipped" in summary:
        raise UserError(done.transcript)
    say(f"the tools' own tests: {summary}")


def _build_kernels(kernels: Sequence[tuple[Target, str]], request: Request) -> None:
    """Build the kernels of make test; configure all of them first, because the checks wait for that."""
    trees = [(_kernel_of(target, request) or request.tree(target), flavour) for target, flavour in kernels]
    wanted = {(tree.target.name, flavour): (tree, flavour) for tree, flavour in trees}
    for build in (prepare_kernel, build_kernel):
        for tree, flavour in wanted.values():
            build(tree, flavour)


def _kernel_of(target: Target, request: Request) -> Tree | None:
    """The tree to build the target's kernel from, if not its own: unless a target is named, the uppermost of a stack.

    None when the queues above cannot be applied.
    """
    if not request.target_name and top_of_stack(target) != target:
        with suppress(UserError):
            return request.tree(top_of_stack(target))
    return None


def _checks(targets: Sequence[Target], request: Request, *, quick: bool = False) -> dict[str, list[Check]]:
    """The checks of the sources, then those of each queue; only what make test checks if `quick`."""
    env, log = python_env(), BUILD / "check.log"
    log.unlink(missing_ok=True)
    groups = {"source_checks": source_checks(env, log)}
    return groups | {f"checks_of_{it.name}": queue_checks(_queue(it, request, quick), env) for it in targets}


def _make_trees(targets: Sequence[Target], request: Request) -> None:
    """Make all trees at the same time: unpacking keeps one CPU busy. The checks of a queue report its errors."""
    below = {target.below for target in targets}  # made with the queues stacked on them
    with ThreadPoolExecutor(len(targets)) as pool:
        for made in [pool.submit(request.tree, target) for target in targets if target.name not in below]:
            made.exception()


def _queue(target: Target, request: Request, quick: bool = False) -> Queue:
    return Queue(target, partial(request.tree, target), quick, partial(_kernel_of, target, request))


def _in_guests(target: Target, flavour: str, request: Request) -> Counts:
    """Build what the guest tests of a target need, and run them.

    Each of the tests that find a defect of the base must fail there, and pass on the series.
    """
    tree, kernel = request.tree(target), _kernel_of(target, request)
    if target.below:
        machine = make_machine(request, tree, flavour, ("series",), kernel_of=kernel)
        return test_queue(machine, chosen(kselftests(), OF_SECTORS))
    if defects := target.native_defects if flavour == NATIVE else target.defects:
        finding = chosen(kselftests(), defects)
        tests = [test for test in kselftests() if test in finding or group_of(test) == IN_TREE]
        machine = make_machine(request, tree, flavour, ("base", "series"), kernel_of=kernel)
        base = Mutant("base", tree.path, tuple(finding))
        return test_queue(machine, tests, mutants=[base], with_advice=flavour == target.tested)
    mutants = sample(target)
    machine = make_machine(request, tree, flavour, ("base", "series"), mutants)
    cryptsetup = None
    with suppress(UserError):  # the part build_of_cryptsetup has reported it; the kernel is tested without
        cryptsetup = patched_cryptsetup(request)
    return test_queue(machine, kselftests(), mutants=mutants, cryptsetup=cryptsetup, with_advice=True)


def _sample(what: str, request: Request) -> Counts:
    """Run the tests of SAMPLES on the kernel of this proof."""
    suite = _suite(what, SAMPLED, request, ())
    return suite.run(suite.kselftests(SAMPLES[what]))


def _suite(what: str, target: Target, request: Request, mutants: Sequence[Mutant]) -> Suite:
    proof = PROOF_KINDS[what]
    machine = make_machine(request, request.tree(target), proof.flavour_for(target), ("series",), mutants)
    suite = Suite(machine, f"prove-{what}", quick=proof.quick)
    suite.guests = replace(suite.guests, fixed_cpus=proof.cpus)
    return suite


def selftest(request: Request, *, quick: bool, variant: str, tests: str, exclude: str, blktests: Path | None) -> int:
    """Run the kselftests on the debug kernel, or the tests of a program; status 1 when one failed."""
    target = request.target()
    if not target.is_kernel and (variant != "series" or request.accel not in (None, UNACCELERATED)):
        raise UserError("the tests of programs run with both drivers, in User-Mode Linux: no VARIANT=, no ACCEL=")
    known = kselftests() if target.is_kernel else chosen(program_tests(), target.tests)
    wanted = chosen(known, tests.split(), exclude.split())
    ensure_packages("base", "build", "guest")
    if not target.is_kernel:
        ensure_packages(*_builds([target]))
        return _close(total([_on_kernel(request, target, name, wanted, quick) for name in target.guests]))
    name, machine = machine_as_it_stands(request, variant, _flavour(request.kernel_target(), request))
    suite = Suite(machine, "selftest", quick=quick, env={"BLKTESTS": str(blktests or "")}, variant=name)
    return _close(suite.run(suite.kselftests(wanted, name)))


def _builds(targets: Sequence[Target]) -> set[str]:
    """The groups of host packages that compile the targets, and the cryptsetup that their tests use."""
    every = [*targets, *(get_target(target.cryptsetup) for target in targets if target.cryptsetup)]
    return {target.build.packages if target.build else "build" for target in every if not target.own_test}


def _on_kernel(request: Request, target: Target, kernel: str, tests: Sequence[str], quick: bool) -> Counts:
    """Run tests of a program with the drivers of another target, on the kernel that make test builds for it."""
    other = get_target(kernel)
    above = request.tree(top_of_stack(other))
    machine = make_machine(request, request.tree(other), other.tested, ("base", "series"), kernel_of=above)
    tree = request.tree(target)
    programs = build_programs(tree) if target.build else None
    cryptsetup = build_programs(request.tree(get_target(target.cryptsetup))) if target.cryptsetup else programs
    env = {"TREE": str(programs.source if programs else tree.path)}
    suite = Suite(machine, target.name, quick=quick, cryptsetup=cryptsetup, env=env)
    return suite.run(suite.cryptsetup_tests(tests))


def shell(request: Request, variant: str, arch: str) -> None:
    """Open a shell in a guest, on the user's terminal. Its last command may fail."""
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest", *([arch] if arch else []))
    flavour = arch or (_flavour(target, request) if request.accel == UNACCELERATED else "fast")
    name, machine = machine_as_it_stands(request, variant, flavour)
    module = machine.modules[name]
    open_shell(
        machine.kernel,
        out=new_run(build_dir(target.name), "shell"),
        accel=machine.accel(),
        inputs={**groups(), **module.inputs},
        env={"CRYPTSETUP_PREFIX": "" if arch else str(patched_cryptsetup(request).prefix)},
    )


def _flavour(target: Target, request: Request) -> str:
    return target.tested if request.accel == UNACCELERATED else "debug"


def prove(request: Request, what: str, tests: str, minutes: int, seed: int) -> int:
    """Run one proof and the mutants that only it catches, and write its row; status 1 when one failed.

    With `tests` run only these, without mutants and row.
    """
    target, proof = request.kernel_target(), PROOF_KINDS[what]
    wanted = chosen(kselftests(), tests.split() or proof.tests)
    ensure_packages("base", "build", "guest", *{what}.intersection(PROCESSORS))
    mutants = [] if tests else [mutant for mutant in all_mutants(target) if mutant.proof == what]
    # QEMU interprets other processors: a short test can take more than 20 minutes.
    suite, seconds = _suite(what, target, request, mutants), FULL_SECONDS if what in PROCESSORS else 0.0
    if proof.soaks:
        seed = seed or int.from_bytes(os.urandom(2), "big")
        say(f"{minutes} minutes with SEED={seed}")
        seconds = 2 * (60.0 * minutes + 600.0)
        suite.guests = replace(suite.guests, env={"DM_CRYPT_MINUTES": str(minutes), "DM_CRYPT_SEED": str(seed)})
    start = time.monotonic()
    # Of all tests some skip for want of options and programs.
    judge = None if proof.tests else partial(replace, must_run=False)
    jobs = suite.kselftests(wanted, judge=judge, seconds=seconds)
    counts = suite.run([*jobs, *suite.mutants(mutants)])
    if not tests and not suite.machine.tree.taken:
        record(what, suite.machine, counts, time.monotonic() - start)
    return _close(counts)


def bisect_check(request: Request) -> int:
    """Run the kselftests on every commit of the queue; status 1 when one failed."""
    target = request.kernel_target()
    ensure_packages("base", "build", "guest")
    tree = request.tree(target)
    names = ("base", *steps(tree), "series")
    return _close(test_each_commit(make_machine(request, tree, _flavour(target, request), names)))


def mutants(request: Request, tests: str) -> int:
    """Run each mutant against the tests that must catch it; status 1 when one is not caught."""
    target = request.kernel_target()
    wanted = named(target, tests.split())
    flavour = _flavour(target, request)
    if flavour == NATIVE:
        kept = without_debug_kernel(wanted)
        say(f"{len(wanted) - len(kept)} of {len(wanted)} mutants do not run: only the debug kernel shows them")
        wanted = kept
    ensure_packages("base", "build", "guest")
    machine = make_machine(request, request.tree(target), flavour, ("series",), wanted)
    suite = Suite(machine, "mutants")
    return _close(suite.run(suite.mutants(wanted)))


def outside(request: Request, tests: str, blktests: Path | None, xfstests: Path | None) -> int:
    """Run suites of others with the lowest queue's base and with this queue; status 1 if the queue does worse."""
    checkouts = {name: path for name, path in (("blktests", blktests), ("xfstests", xfstests)) if path}
    if not checkouts:
        raise UserError("outside: give BLKTESTS=DIR, XFSTESTS=DIR or both, checkouts that are built")
    modes, target = wanted_tests(checkouts, tests.split()), request.kernel_target()
    flavours = {name: flavour_of(name, target) for name in checkouts}
    ensure_packages("base", "build", "guest", "outside")
    tree = request.tree(target)
    lowest = [*(request.tree(below) for below in stack_below(target)), tree][0]
    found = []
    for name, checkout in checkouts.items():
        wanted = {mode: those for mode, those in modes.items() if mode.startswith(name)}
        if wanted:
            machine = make_machine(request, tree, flavours[name], ("series",))
            base = build_variant(machine.kernel, lowest, lowest.base, "base")
            suite = Suite(replace(machine, modules={"base": base, **machine.modules}), "outside")
            found.append(suite.run([partial(compare, suite, checkout, mode, those) for mode, those in wanted.items()]))
    return _close(total(found))


def package_test(request: Request, tests: str) -> int:
    """Test the package on Debian systems made for this; status 1 when a case failed."""
    ensure_packages("base", "guest", "package")
    enter_python_env()
    return _close(package_guests.run_scenarios(packaged(request, default_version()), tests.split()))


def _close(counts: Counts) -> int:
    say(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0
