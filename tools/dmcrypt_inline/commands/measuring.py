"""The stages that measure, and those that show results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..bench import sectors
from ..bench.measure import measure
from ..bench.plans import PLANS, get_plan
from ..common.errors import UserError
from ..common.gitrepo import git
from ..common.host import ensure_packages, enter_python_env
from ..common.paths import build_dir, log_dir
from ..common.progress import say
from ..guests.guest import run_guest
from ..guests.machine import UNACCELERATED, Machine
from ..kernels.build import build_kernel, build_variant
from ..kernels.build_programs import Programs
from ..report import pages
from ..trees.targets import DRIVER, MEASURED, stack_below, top_of_stack
from .machines import drivers_wanted, make_machine, patched_cryptsetup
from .request import Request

DEMO_SECONDS = 300.0  # for what the demonstration shows, which takes about 20 on 2 cores without KVM
DEMO_ROUNDS = 5


def demo(request: Request) -> int:
    """Show the queue at work on the fast kernel with the patched cryptsetup, and measure it.

    The exit status is 0 whatever the figures: the gain depends on the price of waking a thread on this machine.
    """
    target = request.kernel_target()
    ensure_packages("base", "build", "cryptsetup", "guest")
    enter_python_env()
    machine = make_machine(request, request.tree(target), "fast", ("base", "series"))
    _show(machine, patched_cryptsetup(request))
    say("== Throughput: RAM disk, null cipher, 4k, one job")
    path = measure(machine, replace(PLANS["quick"], rounds=DEMO_ROUNDS), "demo")
    say(f"\n{pages.page_text(path)}\n")
    return pages.write_report(path)


def _show(machine: Machine, cryptsetup: Programs) -> None:
    """Show tables and a LUKS2 volume in a guest. Raises UserError when a step fails or the kernel warns."""
    kernel, accel = machine.kernel, machine.accel()
    out = build_dir(kernel.target) / "demo" / "guest"
    say(f"booting Linux {kernel.release} ({kernel.flavour}, {accel}); console: {out / 'console.log'}")
    run_guest(
        kernel,
        "demo.sh",
        name="demo",
        out=out,
        accel=accel,
        timeout=DEMO_SECONDS,
        inputs=machine.modules["series"].inputs,
        env={"CRYPTSETUP_PREFIX": str(cryptsetup.prefix)},
        on_line=say,
    ).require_success()


def bench(request: Request, *, plan: str, rounds: int | None, variants: Sequence[str]) -> None:
    """Measure a plan in a guest. Slow figures are no error."""
    given = drivers_wanted(variants)
    if request.accel == UNACCELERATED:
        bench_sectors(request, plan, rounds, given)
        return
    wanted = get_plan(PLANS, plan)
    target = request.kernel_target()
    ensure_packages("base", "build", "guest")
    enter_python_env()
    made = request.tree(target)
    machine = make_machine(request, made, "fast", ("base", "series"))
    built = {name: build_variant(machine.kernel, made, made.series, name, driver=path) for name, path in given.items()}
    machine = replace(machine, modules={**machine.modules, **built})
    _show_results(measure(machine, replace(wanted, rounds=rounds or wanted.rounds), plan))


def bench_sectors(request: Request, name: str, rounds: int | None, given: Mapping[str, Path]) -> None:
    """Measure what a sector costs with real ciphers, in User-Mode Linux, and print it."""
    plan = get_plan(sectors.NATIVE_PLANS, name)
    plan = replace(plan, rounds=rounds or plan.rounds)
    target = request.kernel_target()
    if MEASURED not in target.fragments:
        raise UserError(f"{target.name} cannot be measured in User-Mode Linux")
    ensure_packages("base", "build", "guest")
    enter_python_env()
    made = request.tree(target)
    stack = [request.tree(below) for below in stack_below(target)]
    lowest = [*stack, made][0]
    below = {"base": (lowest, lowest.base), **{tree.target.name: (tree, tree.series) for tree in stack}}
    trees = {name: tree for name, tree in below.items() if plan.queues or (plan.boots and name == "base")}
    trees["series"] = (made, made.series)
    log = log_dir(target.name) / "variants.log"
    drivers = {
        variant: git(tree.path, "show", f"{commit}:{DRIVER}", log=log).output
        for variant, (tree, commit) in trees.items()
    }
    drivers |= {variant: path.read_text() for variant, path in given.items()}
    # All queues of a stack are measured on the kernel of the uppermost queue.
    top = request.tree(top_of_stack(target))
    machines = [Machine(made, build_kernel(top, flavour), {}, request.accel) for flavour in plan.flavours]
    _show_results(sectors.measure_sectors(machines, drivers, plan, name))


def _show_results(path: Path) -> None:
    say(pages.page_text(path))
    say(f"the same with charts: make report RESULTS={path}")


def report(request: Request, results: Path | None) -> int:
    """Print the tables of the results named, or of the target's last benchmark, and write their page."""
    results = results or pages.newest_results(request.kernel_target().name)
    enter_python_env()
    say(f"{pages.page_text(results)}\n")
    return pages.write_report(results)
