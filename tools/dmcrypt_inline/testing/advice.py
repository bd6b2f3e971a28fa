"""Test dmcrypt-advise in a guest: its advice for real mappings, --apply and --undo."""

import os
import sys

from ..common.paths import REPO
from ..guests.guest import run_guest
from ..kernels.build import Module
from . import ktap
from .guest_tests import Guests, TestResult

PACKAGE = REPO / "advise" / "dmcrypt_advise"
SECONDS = 2400.0  # only a guest that hangs takes so long


def run_advice(guests: Guests, module: Module) -> TestResult:
    """Run tools/guest/advise.py.

    Raises UserError if the guest cannot be started or writes no result.
    """
    guest = run_guest(
        guests.kernel,
        "advise.sh",
        name="advise",
        out=guests.out,
        accel=guests.accel,
        timeout=SECONDS,
        inputs={"advise/dmcrypt_advise": PACKAGE, **module.inputs},
        env={"PYTHON": os.path.realpath(sys.executable)},  # outside of any virtual environment
        cpus=1,
        memory=guests.memory,
        kernel_args=("kmemleak=off",),
        on_line=guests.on_line,
    )
    result = guest.results / "advise.ktap"
    if not result.exists():
        guest.require_success()
    report = ktap.parse(result.read_text())
    return TestResult("advise", report, guest.status, guest.warnings, must_run=True)
