"""What each sub-command does: the stages in their order."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from . import bench as bench_stage
from . import demo as demo_stage
from . import posting, reporting, suites
from .base import BaseTree, own_tree, prepare_base
from .build import Kernel, Module, build_kernel, build_module, prepare_kernel
from .build_cryptsetup import Cryptsetup, build_cryptsetup
from .check import check
from .checks import run_checks
from .errors import UserError
from .gitrepo import git
from .guest_tests import chosen, kselftests
from .here import measure_here
from .host import ensure_packages, enter_python_env, python_env
from .lint import source_checks
from .machine import UNACCELERATED, Machine
from .mutants import Mutant, named, sample, without_emulation
from .outbox import Posting
from .own_tests import run_own_tests
from .parts import run_parts
from .paths import BUILD, log_dir
from .progress import say
from .results import Counts
from .series import Tree, apply_series
from .targets import CRYPTSETUP, DEFAULT, NATIVE, NATIVE_DEBUG, TARGETS, Target, get_target
from .workloads import get_plan


@dataclass(frozen=True)
class Request:
    """What the user asked for: a target's name (None: see `targets` and `target`), an accelerator, own trees.

    `own` maps a target's variable (LINUX, CRYPTSETUP) to the user's tree. `quick`
    `variant` and `tests` (none: all) are for the selftests, `minutes` and `seed` (0: any) for the
    soak. Of the mutants, `tests` names drivers or tests that must catch them.
    `files` are results files, `metric` and `to` are for compare: a key of stats.METRICS, one of compare.TO.
    `only_check` of figures: say what is stale instead of writing it. `bench` is what to measure, `posting` how to post.
    """

    target_name: str | None
    own: Mapping[str, Path]
    accel: str | None
    quick: bool = False
    variant: str = "series"
    tests: tuple[str, ...] = ()
    minutes: int = 60
    seed: int = 0
    files: tuple[Path, ...] = ()
    metric: str = ""
    to: str = ""
    only_check: bool = False
    bench: bench_stage.Wanted = field(default_factory=bench_stage.Wanted)
    posting: Posting = field(default_factory=lambda: Posting(""))

    def target(self) -> Target:
        """The target asked for, or the default one. Raises UserError for an unknown name."""
        return get_target(self.target_name or DEFAULT)

    def kernel_target(self) -> Target:
        """The same, but UserError when there is no kernel to boot."""
        target = self.target()
        if not target.is_kernel:
            kernels = ", ".join(name for name, other in TARGETS.items() if other.is_kernel)
            raise UserError(f"{target.name} is no kernel to boot\n  TARGET= takes one of: {kernels}")
        return target

    def targets(self) -> Sequence[Target]:
        """The target asked for, or all of them."""
        return [get_target(self.target_name)] if self.target_name else list(TARGETS.values())

    def base(self, target: Target) -> BaseTree:
        """The base of the target, from the user's own tree where that is meant for it."""
        return prepare_base(target, own_tree(target, self.own, named=self.target_name is not None))

    def tree(self, target: Target) -> Tree:
        """The target's tree, the queue applied."""
        ensure_packages("base")
        return apply_series(target, self.base(target))


def _cryptsetup(request: Request) -> Cryptsetup:
    """The patched cryptsetup that guests use."""
    return build_cryptsetup(request.tree(get_target(CRYPTSETUP)))


def _variant(tree: Tree, kernel: Kernel, name: str, patch: Path | None = None) -> Module:
    """dm-crypt of the tag base, or of the series with `patch` on top; UserError when that does not apply."""
    return _module_at(tree, kernel, "base" if name == "base" else "series", name, patch)


def _module_at(tree: Tree, kernel: Kernel, commit: str, name: str, mine: Path | None = None) -> Module:
    """dm-crypt of a commit of the tree; `mine` is a patch on top, or a driver (.c) in its place."""
    log = log_dir(tree.target.name) / "variants.log"
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as place:
        sources = [Path(place) / path for path in tree.target.replaced]
        for path, source in zip(tree.target.replaced, sources):
            source.parent.mkdir(parents=True)
            source.write_text(git(tree.path, "show", f"{commit}:{path}", log=log).output)
        if mine is not None and mine.suffix == ".c":
            shutil.copyfile(mine, sources[0])
        elif mine is not None:
            git(Path(place), "init", "-q", log=log)  # else git apply looks for a repository further up
            git(Path(place), "apply", mine, log=log)
        return build_module(kernel, sources[0], name, sources[1:])


def _machine(request: Request, tree: Tree, flavour: str, names: Sequence[str], wrong: Sequence[Mutant] = ()) -> Machine:
    """Guests' kernel, cryptsetup and modules: the variants `names` and those that are wrong."""
    cryptsetup = _cryptsetup(request)
    kernel = build_kernel(tree, flavour)
    modules = {name: _variant(tree, kernel, name) for name in names}
    modules |= {mutant.name: _variant(tree, kernel, mutant.name, mutant.patch) for mutant in wrong}
    return Machine(tree, kernel, modules, cryptsetup, request.accel)


def _with_steps(machine: Machine) -> Machine:
    """The machine with a variant for each commit of the queue that changes dm-crypt, in their order."""
    commits = bench_stage.steps(machine.tree)
    steps = {name: _module_at(machine.tree, machine.kernel, commit, name) for name, commit in commits.items()}
    first = {name: module for name, module in machine.modules.items() if name != "series"}
    return replace(machine, modules={**first, **steps, "series": machine.modules["series"]})


def tree(request: Request) -> int:
    """Make build/<target>/tree and say where it is."""
    made = request.tree(request.target())
    say(
        f"{made.path}: base {made.base[:12]} from {made.origin}; series {made.series[:12]}, {len(made.commits)} patches"
    )
    return 0


def demo(request: Request) -> int:
    """The whole way on the fast kernel, with the patched cryptsetup; the exit status is the demo's."""
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest")
    enter_python_env()
    machine = _machine(request, request.tree(target), "fast", ("base", "series"))
    return demo_stage.run(machine)


def check_only(request: Request) -> int:
    """The checks that need no guest; status 1 when one failed."""
    targets = request.targets()
    ensure_packages("base", "check", "coccinelle", "dear", *_build_packages(targets))
    return _close(run_parts(_checks(targets, request, quick=False)))


def test(request: Request) -> int:
    """Checks, the tools' tests, and the guest tests on the debug kernels; status 1 when anything failed."""
    targets = request.targets()
    kernels = [target for target in targets if target.is_kernel]
    ensure_packages("base", "build", "check", "coccinelle", "cryptsetup", "guest", "report")
    pool = ThreadPoolExecutor(1)  # for the kernels: the checks leave one CPU idle most of the time
    begun: list[Future[None]] = []

    def trees() -> Counts:
        counts = _trees(targets, request)
        begun.append(pool.submit(_kernels, kernels, request))
        return counts

    def built() -> Counts:
        wait(begun)  # what went wrong is said where the kernel is needed
        return Counts(0, 0, 0)

    # Cheapest first: a mistake shows in seconds.
    parts = {"tools_tests": run_own_tests, **_checks(targets, request, quick=True), "trees": trees, "kernels": built}
    for target in kernels:
        parts[f"builds_of_{target.name}"] = partial(_builds, target, request)
        parts[f"guest_tests_of_{target.name}"] = partial(_in_guests, target, request)
    try:
        return _close(run_parts(parts))
    finally:
        pool.shutdown(cancel_futures=True)


def _kernels(targets: Sequence[Target], request: Request) -> None:
    """Build the kernels of make test: all are configured first, because the checks wait for that."""
    trees = [request.tree(target) for target in targets]
    for step in (prepare_kernel, build_kernel):
        for tree in trees:
            step(tree, tree.target.tested)


def _build_packages(targets: Sequence[Target]) -> set[str]:
    return {"build" if target.is_kernel else "cryptsetup" for target in targets}


def _checks(targets: Sequence[Target], request: Request, *, quick: bool) -> dict[str, Callable[[], Counts]]:
    """The sources' checks, then those of each queue, with the dear ones unless `quick`."""
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
    with ThreadPoolExecutor(len(targets)) as pool:
        for made in [pool.submit(request.tree, target) for target in targets]:
            made.exception()
    return Counts(0, 0, 0)


def _check(target: Target, request: Request, quick: bool) -> Counts:
    return check(target, request.base(target), python_env(), quick)


def _guest_tests(target: Target, request: Request) -> Callable[[], Counts]:
    """Build what the guest tests of a target need; what is returned runs them."""
    made = request.tree(target)
    if target.defects:
        return partial(suites.test_fixes, _machine(request, made, NATIVE_DEBUG, ("base", "series")), target.defects)
    wrong = sample(target)
    return partial(suites.test, _machine(request, made, NATIVE, ("base", "series"), wrong), wrong)


def _builds(target: Target, request: Request) -> Counts:
    """A part of its own, so that the time for builds stands beside the time in guests."""
    _guest_tests(target, request)
    return Counts(0, 0, 0)


def _in_guests(target: Target, request: Request) -> Counts:
    return _guest_tests(target, request)()


def selftest(request: Request) -> int:
    """The kselftests on the debug kernel, or the tests of cryptsetup; status 1 when one failed."""
    ensure_packages("base", "build", "cryptsetup", "guest")
    if request.target().name == CRYPTSETUP:
        if request.variant != "series" or request.accel not in (None, UNACCELERATED):
            raise UserError("cryptsetup is tested with both drivers, under User-Mode Linux: no VARIANT=, no ACCEL=")
        tests = chosen(suites.cryptsetup_tests(), request.tests)
        kernel = request.tree(get_target(DEFAULT))
        machine = _machine(request, kernel, NATIVE, ("base", "series"))
        return _close(suites.of_cryptsetup(machine, request.quick, tests))
    target = request.kernel_target()
    tests = chosen(kselftests(), request.tests)
    name, driver = _variant_wanted(request.variant)
    machine = _machine(request, request.tree(target), _flavour(target, request), () if driver else (name,))
    if driver:
        mine = _module_at(machine.tree, machine.kernel, "series", name, driver)
        machine = replace(machine, modules={name: mine})
    return _close(suites.selftest(machine, request.quick, name, tests))


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


def soak(request: Request) -> int:
    """The long random test, for as long as asked for; status 1 when it found something."""
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest")
    seed = request.seed or int.from_bytes(os.urandom(2), "big")
    say(f"{request.minutes} minutes with SEED={seed}")
    machine = _machine(request, request.tree(target), _flavour(target, request), ("series",))
    return _close(suites.soak(machine, request.minutes, seed))


def bisect_check(request: Request) -> int:
    """The kselftests on every commit of the queue; status 1 when one failed."""
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest")
    machine = _with_steps(_machine(request, request.tree(target), _flavour(target, request), ("base", "series")))
    return _close(suites.bisect_check(machine))


def all_mutants(request: Request) -> int:
    """Every driver that is wrong on purpose against the tests that must catch it; status 1 when one gets away."""
    target = request.kernel_target()
    wrong = named(target, request.tests)
    flavour = _flavour(target, request)
    if flavour == NATIVE:
        kept = without_emulation(wrong)
        say(f"{len(wrong) - len(kept)} of {len(wrong)} are left out: what finds them needs the debug kernel")
        wrong = kept
    ensure_packages("base", "build", "cryptsetup", "guest")
    machine = _machine(request, request.tree(target), flavour, ("series",), wrong)
    return _close(suites.mutants(machine, wrong))


def bench(request: Request) -> int:
    """Measure a plan: in a guest, or on the running kernel. Returns 0: slow figures are no error."""
    wanted = request.bench
    plan = get_plan(wanted.plan)
    if wanted.here:
        if wanted.variants:
            raise UserError("the running kernel has one dm-crypt: VARIANT= is for guests, without HERE=1")
        measure_here(plan, wanted.device, wanted.destroy)
        return 0
    if wanted.device or wanted.destroy:
        raise UserError("DEVICE= and DESTROY_DATA= are for the running kernel: give HERE=1 too; a guest sees no disks")
    given, each = bench_stage.named_variants(wanted.variants)
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest")
    python_env()
    made = request.tree(target)
    machine = _machine(request, made, "fast", ("base", "series"))
    if each:
        machine = _with_steps(machine)
    built = {
        name: _module_at(made, machine.kernel, "series", name, path)
        for name, path in given.items()
        if path.suffix == ".c"
    }
    further = {name: path for name, path in given.items() if name not in built}
    bench_stage.run(replace(machine, modules={**machine.modules, **built}), plan, further)
    return 0


def _close(counts: Counts) -> int:
    say(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


COMMANDS: dict[str, Callable[[Request], int]] = {
    "tree": tree,
    "check": check_only,
    "test": test,
    "demo": demo,
    "selftest": selftest,
    "bench": bench,
    "soak": soak,
    "mutants": all_mutants,
    "bisect-check": bisect_check,
    "edit": posting.edit,
    "refresh": posting.refresh,
    "refresh-selftests": posting.refresh_selftests,
    "am": posting.am,
    "outbox": posting.outbox,
    "report": reporting.report,
    "compare": reporting.compare,
    "figures": reporting.figures,
}
