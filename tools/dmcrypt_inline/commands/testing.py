"""The sub-commands that check and test a queue."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..checks.checklist import run_checks
from ..checks.queues import check as check_queue
from ..checks.queues import check_mails, queue_checks
from ..checks.sources import source_checks
from ..common.counts import Counts, run_parts
from ..common.errors import UserError
from ..common.host import ensure_packages, python_env
from ..common.paths import BUILD, build_dir
from ..common.progress import say
from ..guests.guest import open_shell
from ..guests.machine import UNACCELERATED, Machine
from ..kernels.build import build_kernel, prepare_kernel
from ..testing import package_guests, suites
from ..testing.guest_tests import chosen, groups, kselftests
from ..testing.mutants import named, sample, without_emulation
from ..testing.tools_tests import run_own_tests
from ..trees.base import own_tree
from ..trees.package import default_version
from ..trees.series import Tree
from ..trees.targets import CRYPTSETUP, DEFAULT, NATIVE, NATIVE_DEBUG, TARGETS, Target, get_target, top_of_stack
from .machines import make_machine, module_at, patched_cryptsetup, with_released, with_steps
from .queue import packaged
from .request import Request

# What make test runs on a stacked queue: the tests of what happens to a sector. The queue below has had the others.
OF_SECTORS = (
    "regressions",
    "aes_xts_is_that_of_openssl",
    "authenticated_data_same_in_all_modes",
    "data_same_at_all_sizes",
    "data_same_in_all_modes",
    "eboiv_encrypts_the_offset",
    "keys_leave_memory",
    "keys_wiped_and_set",
    "reads_go_on_in_kcryptd",
    "units_same_in_one_call",
)


def check(request: Request, only: str) -> int:
    """The checks that need no guest; status 1 when one failed."""
    targets = request.targets()
    ensure_packages("base", "check", "coccinelle", "slow", *_build_packages(targets))
    if only:
        return _close(_some_checks(targets, request, set(only.split())))
    return _close(run_parts(_checks(targets, request, quick=False)))


def _some_checks(targets: Sequence[Target], request: Request, wanted: set[str]) -> Counts:
    """The checks of these names, of the sources and of each queue. Raises UserError for a name that none has."""
    _trees(targets, request)
    checks = source_checks(python_env(), BUILD / "check.log")
    for target in targets:
        checks += queue_checks(target, request.base(target), python_env(), False, _kernel_of(target, request))
    names = {each.name for each in checks}
    if not wanted <= names:
        unknown = ", ".join(sorted(wanted - names))
        raise UserError("\n    ".join([f"there is no check {unknown}\n  CHECK= takes:", *sorted(names)]))
    return run_checks([each for each in checks if each.name in wanted])


def test(request: Request) -> int:
    """Checks, the tools' tests, and the guest tests on the debug kernels; status 1 when anything failed."""
    targets = request.targets()
    # What lies between the lowest and the uppermost queue of a stack is in the tree of the uppermost one.
    kernels = [
        target
        for target in targets
        if target.is_kernel and (request.target_name or not target.below or target == top_of_stack(target))
    ]
    long_term = [] if request.target_name else [target for target in TARGETS.values() if target.long_term]
    ensure_packages("base", "build", "check", "coccinelle", "cryptsetup", "guest", "report")
    pool = ThreadPoolExecutor(1)  # for the kernels: the checks leave one CPU idle most of the time
    begun: list[Future[None]] = []

    def trees() -> Counts:
        counts = _trees([*targets, *long_term], request)
        begun.append(pool.submit(_kernels, kernels, long_term, request))
        return counts

    def built() -> Counts:
        wait(begun)  # what went wrong is said where the kernel is needed
        return Counts(0, 0, 0)

    # Cheapest first: a mistake shows in seconds.
    parts = {"tools_tests": run_own_tests, **_checks(targets, request, quick=True), "trees": trees, "kernels": built}
    parts |= {f"mails_of_{target.name}": partial(_check_mails, target, request) for target in long_term}
    if DEFAULT in {target.name for target in kernels}:  # its guests are cryptsetup's too
        parts["build_of_cryptsetup"] = partial(_build_cryptsetup, request)
    if not request.target_name:
        parts["package"] = partial(_package, request)
    for target in kernels:
        parts[f"guest_tests_of_{target.name}"] = partial(_in_guests, target, request)
    for target in long_term:
        parts[f"regressions_of_{target.name}"] = partial(_regressions, target, request)
    try:
        return _close(run_parts(parts))
    finally:
        pool.shutdown(cancel_futures=True)


def _kernels(targets: Sequence[Target], long_term: Sequence[Target], request: Request) -> None:
    """Build the kernels of make test: all are configured first, because the checks wait for that."""
    trees = [_kernel_of(each, request) or request.tree(each) for each in targets]
    wanted = {tree.target.name: (tree, tree.target.tested) for tree in trees}
    wanted |= {each.name: (request.tree(each), NATIVE) for each in long_term}
    for step in (prepare_kernel, build_kernel):
        for tree, flavour in wanted.values():
            step(tree, flavour)


def _kernel_of(target: Target, request: Request) -> Tree | None:
    """Whose kernel it is that is not the target's own: unless one is named, the uppermost of a stack has it for all.

    None where the queues above cannot be applied.
    """
    if not request.target_name and top_of_stack(target) != target:
        with suppress(UserError):
            return request.tree(top_of_stack(target))
    return None


def _build_packages(targets: Sequence[Target]) -> set[str]:
    return {"build" if target.is_kernel else "cryptsetup" for target in targets}


def _checks(targets: Sequence[Target], request: Request, *, quick: bool) -> dict[str, Callable[[], Counts]]:
    """The sources' checks, then those of each queue, with the slow ones unless `quick`."""
    parts: dict[str, Callable[[], Counts]] = {"source_checks": _check_sources}
    parts["trees"] = partial(_trees, targets, request)
    for target in targets:
        parts[f"checks_of_{target.name}"] = partial(_check, target, request, quick)
    return parts


def _check_sources() -> Counts:
    log = BUILD / "check.log"
    log.unlink(missing_ok=True)
    return run_checks(source_checks(python_env(), log))


def _trees(targets: Sequence[Target], request: Request) -> Counts:
    """All trees at once, because to unpack one keeps one CPU busy. What cannot be made, its checks say."""
    below = {target.below for target in targets}  # made with those that are stacked on them
    with ThreadPoolExecutor(len(targets)) as pool:
        for made in [pool.submit(request.tree, target) for target in targets if target.name not in below]:
            made.exception()
    return Counts(0, 0, 0)


def _check(target: Target, request: Request, quick: bool) -> Counts:
    return check_queue(target, request.base(target), python_env(), quick, _kernel_of(target, request))


def _check_mails(target: Target, request: Request) -> Counts:
    return check_mails(target, request.base(target), python_env())


def _build_cryptsetup(request: Request) -> Counts:
    patched_cryptsetup(request)
    return Counts(0, 0, 0)


def _package(request: Request) -> Counts:
    """That it can be made."""
    packaged(request, default_version())
    return Counts(1, 0, 0)


def _in_guests(target: Target, request: Request) -> Counts:
    """Build what the guest tests of a target need, and run them."""
    made, kernel = request.tree(target), _kernel_of(target, request)
    if target.below:
        machine = make_machine(request, made, target.tested, ("series",), kernel_of=kernel)
        return suites.selftest(machine, True, "series", chosen(kselftests(), OF_SECTORS))
    volumes = request.base(get_target(CRYPTSETUP))
    if target.defects:
        machine = make_machine(request, made, target.tested, ("base", "series"), kernel_of=kernel)
        return suites.test_fixes(machine, target.defects, suites.advice(machine, volumes))
    wrong = sample(target)
    machine = make_machine(request, made, target.tested, ("base", "series"), wrong)
    if not own_tree(target, request.own, named=request.target_name is not None):
        machine = with_released(machine)
    cryptsetup = None
    with suppress(UserError):  # the part that builds it has said so; the kernel is tested without
        cryptsetup = patched_cryptsetup(request)
    return suites.test(machine, wrong, cryptsetup, suites.advice(machine, volumes))


def _regressions(target: Target, request: Request) -> Counts:
    """The tests of the tree on a long-term kernel, and what finds its base wrong."""
    machine = make_machine(request, request.tree(target), NATIVE, ("base", "series"))
    return suites.test_fixes(machine, target.defects_natively)


def selftest(request: Request, quick: bool, variant: str, tests: str) -> int:
    """The kselftests on the debug kernel, or the tests of cryptsetup; status 1 when one failed."""
    ensure_packages("base", "build", "guest")
    if request.target().name == CRYPTSETUP:
        ensure_packages("cryptsetup")
        if variant != "series" or request.accel not in (None, UNACCELERATED):
            raise UserError("cryptsetup is tested with both drivers, under User-Mode Linux: no VARIANT=, no ACCEL=")
        wanted = chosen(suites.cryptsetup_tests(), tests.split())
        kernel = request.tree(get_target(DEFAULT))
        machine = make_machine(request, kernel, NATIVE, ("base", "series"))
        return _close(suites.of_cryptsetup(machine, patched_cryptsetup(request), quick, wanted))
    target = request.kernel_target()
    wanted = chosen(kselftests(), tests.split())
    name, machine = _machine_with(request, variant, _flavour(target, request))
    return _close(suites.selftest(machine, quick, name, wanted))


def shell(request: Request, variant: str) -> int:
    """A shell in a guest, on the user's terminal. Returns 0, whatever the last command there did."""
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest")
    flavour = _flavour(target, request) if request.accel == UNACCELERATED else "fast"
    name, machine = _machine_with(request, variant, flavour)
    module = machine.modules[name]
    open_shell(
        machine.kernel,
        out=build_dir(target.name) / "shell",
        accel=machine.accel(),
        inputs={**groups(), **{f"modules/{path.name}": path for path in (module.path, *module.beside)}},
        env={"CRYPTSETUP_PREFIX": str(patched_cryptsetup(request).prefix)},
    )
    return 0


def _machine_with(request: Request, variant: str, flavour: str) -> tuple[str, Machine]:
    """A machine with one variant, of that name. Raises UserError as `_variant_wanted` does."""
    name, driver = _variant_wanted(variant)
    tree = request.tree(request.kernel_target())
    machine = make_machine(request, tree, flavour, () if driver else (name,))
    if driver:
        machine = replace(machine, modules={name: module_at(tree, machine.kernel, tree.series, name, driver)})
    return name, machine


def _variant_wanted(word: str) -> tuple[str, Path | None]:
    """A variant's name, and the driver's file unless the tree has it. Raises UserError for what is neither."""
    if word in ("base", "series"):
        return word, None
    name, _, path = word.rpartition("=")
    if Path(path).suffix != ".c" or not Path(path).is_file():
        raise UserError(f"VARIANT={word}: neither base nor series nor a file [NAME=]path/to/dm-crypt.c")
    return name or "mine", Path(path)


def _flavour(target: Target, request: Request) -> str:
    """The kernel for the kselftests: the debug kernel, or what there is of it under User-Mode Linux."""
    native = NATIVE_DEBUG if NATIVE_DEBUG in target.fragments else NATIVE
    return native if request.accel == UNACCELERATED else "debug"


def soak(request: Request, minutes: int, seed: int) -> int:
    """The long random test, for as long as asked for; status 1 when it found something."""
    target = request.kernel_target()
    ensure_packages("base", "build", "guest")
    seed = seed or int.from_bytes(os.urandom(2), "big")
    say(f"{minutes} minutes with SEED={seed}")
    machine = make_machine(request, request.tree(target), _flavour(target, request), ("series",))
    return _close(suites.soak(machine, minutes, seed))


def bisect_check(request: Request) -> int:
    """The kselftests on every commit of the queue; status 1 when one failed."""
    target = request.kernel_target()
    ensure_packages("base", "build", "guest")
    machine = with_steps(make_machine(request, request.tree(target), _flavour(target, request), ("base", "series")))
    return _close(suites.bisect_check(machine))


def mutants(request: Request, tests: str) -> int:
    """Every driver that is wrong on purpose against the tests that must catch it; status 1 when one gets away."""
    target = request.kernel_target()
    wrong = named(target, tests.split())
    flavour = _flavour(target, request)
    if flavour == NATIVE:
        kept = without_emulation(wrong)
        say(f"{len(wrong) - len(kept)} of {len(wrong)} are left out: what finds them needs the debug kernel")
        wrong = kept
    ensure_packages("base", "build", "guest")
    machine = make_machine(request, request.tree(target), flavour, ("series",), wrong)
    return _close(suites.mutants(machine, wrong))


def package_test(request: Request, tests: str) -> int:
    """The package on systems of its own; status 1 when a case did not hold."""
    ensure_packages("base", "guest", "package")
    return _close(package_guests.run_scenarios(packaged(request, default_version()), tests.split()))


def _close(counts: Counts) -> int:
    say(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0
