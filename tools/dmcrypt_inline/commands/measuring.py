"""The sub-commands that measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..bench import guest_run, sectors
from ..bench.inguest.workloads import get_plan
from ..common.errors import UserError
from ..common.gitrepo import git
from ..common.host import ensure_packages, enter_python_env, python_env
from ..common.paths import log_dir
from ..common.progress import say
from ..guests.machine import UNACCELERATED, Machine
from ..kernels.build import build_kernel
from ..report import demo as demo_stage
from ..report import sectors as sectors_report
from ..trees.targets import MEASURED, stack_below, top_of_stack
from .machines import make_machine, module_at, patched_cryptsetup, with_steps
from .request import Request


def demo(request: Request) -> int:
    """The whole way on the fast kernel, with the patched cryptsetup; the exit status is the demo's."""
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest")
    enter_python_env()
    machine = make_machine(request, request.tree(target), "fast", ("base", "series"))
    return demo_stage.run(machine, patched_cryptsetup(request))


def bench(request: Request, *, plan: str, variants: Sequence[str]) -> int:
    """Measure a plan in a guest. Returns 0: slow figures are no error."""
    if request.accel == UNACCELERATED:
        return bench_sectors(request, plan, variants)
    wanted = get_plan(plan)
    given, each = guest_run.named_variants(variants)
    target = request.kernel_target()
    ensure_packages("base", "build", "guest")
    python_env()
    made = request.tree(target)
    machine = make_machine(request, made, "fast", ("base", "series"))
    if each:
        machine = with_steps(machine)
    built = {
        name: module_at(made, machine.kernel, made.series, name, path)
        for name, path in given.items()
        if path.suffix == ".c"
    }
    further = {name: path for name, path in given.items() if name not in built}
    guest_run.run(replace(machine, modules={**machine.modules, **built}), wanted, further)
    return 0


def bench_sectors(request: Request, plan: str, variants: Sequence[str]) -> int:
    """Measure natively what a sector costs with real ciphers, and say it."""
    if plan not in sectors.PLANS:
        raise UserError(f"unknown plan: {plan}\n  with ACCEL=native PLAN= takes one of: {', '.join(sectors.PLANS)}")
    given, each = guest_run.named_variants(variants)
    target = request.kernel_target()
    ensure_packages("base", "build", "guest")
    enter_python_env()
    made = request.tree(target)
    stack = [request.tree(below) for below in stack_below(target)]
    lowest = [*stack, made][0]
    below = {"base": (lowest, lowest.base), **{tree.target.name: (tree, tree.series) for tree in stack}}
    trees = below if sectors.PLANS[plan].all_queues else {}
    trees |= {name: (made, commit) for name, commit in (guest_run.steps(made) if each else {}).items()}
    trees["series"] = (made, made.series)
    log = log_dir(target.name) / "variants.log"
    drivers = {
        name: git(tree.path, "show", f"{commit}:{target.source}", log=log).output
        for name, (tree, commit) in trees.items()
    }
    for name, path in given.items():
        if path.suffix != ".c":
            raise UserError(f"VARIANT={name}={path}: ACCEL=native builds its drivers: give a .c")
        drivers[name] = path.read_text()
    if MEASURED not in target.fragments:
        raise UserError(f"{target.name} cannot be measured natively")
    # All queues of a stack are measured on one kernel, which has what the uppermost one needs.
    machine = Machine(made, build_kernel(request.tree(top_of_stack(target)), MEASURED), {}, request.accel)
    path = sectors.measure(machine, drivers, sectors.PLANS[plan])
    say(sectors_report.text(path))
    say(f"results: {path}; chart: {sectors_report.chart(path)}")
    return 0
