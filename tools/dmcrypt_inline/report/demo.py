"""make demo: tables and a LUKS2 volume in one boot, a short measurement in another, and its report."""

from __future__ import annotations

from ..bench import guest_run
from ..bench.inguest import measurements
from ..bench.inguest.stats import spread, values
from ..bench.inguest.workloads import W1_QUICK, Plan
from ..common.paths import build_dir
from ..common.progress import say
from ..guests.guest import run_guest
from ..guests.machine import Machine
from ..guests.runs import new_run
from ..kernels.build_cryptsetup import Cryptsetup
from . import figures, pages

TIMEOUT = 300.0  # seconds for what is shown, which takes about 20 on 2 cores without KVM

# Five rounds, however much they spread: fewer cannot tell a difference, more take longer than one waits for.
PLAN = Plan("demo", W1_QUICK, seconds=240.0, rounds=5, within=1.0)
NOISY = 0.25  # a spread above this says more about the machine than about the code


def run(machine: Machine, cryptsetup: Cryptsetup) -> int:
    """Show the queue at work on the fast kernel; the modules are base and series.

    Returns 0, whatever the figures: how much faster hangs on what waking a thread costs on the machine, which is
    what the flags save. Raises UserError when a step in the guest fails or the kernel complains.
    """
    kernel = machine.kernel
    out = new_run(build_dir(kernel.target), "demo")
    chosen = machine.accel()
    say(f"booting Linux {kernel.release} ({kernel.flavour}, {chosen}); console: {out / 'console.log'}")
    run_guest(
        kernel,
        "demo.sh",
        name="demo",
        out=out,
        accel=chosen,
        timeout=TIMEOUT,
        inputs={"variants/series.ko": machine.modules["series"].path},
        env={"CRYPTSETUP_PREFIX": str(cryptsetup.prefix)},
        on_line=say,
    ).require_success()
    say("== Throughput: RAM disk, null cipher, 4k, one job")
    path = guest_run.run(machine, PLAN, {})
    results = measurements.read(path)
    say(f"\n{figures.texts(results).cover}")
    noisiest = max(results.measurements, key=lambda cell: spread(values(cell)).iqr)
    worst = spread(values(noisiest)).iqr
    if worst > NOISY:
        say(
            f"do not rely on these figures: {noisiest.variant}:{noisiest.mode} {noisiest.load.rw} spreads over "
            f"{worst:.0%} of its median; is the machine busy?"
        )
    return pages.write(path)
