"""advise in a guest: what it says of real mappings, and what its advice does to them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..common.gitrepo import git
from ..common.paths import REPO
from ..guests.guest import run_guest
from ..kernels.build import Module
from ..trees.base import BaseTree
from . import ktap
from .guest_tests import Guests
from .results import TestResult

PACKAGE = REPO / "advise" / "dmcrypt_advise"
IMAGES = "tests/bitlk-images.tar.xz"
SECONDS = 2400.0  # against a guest that hangs, not to hurry one


def bitlocker_volumes(cryptsetup: BaseTree, out: Path) -> Path:
    """An archive, in the directory `out`, of the BitLocker volumes that cryptsetup's own tests have."""
    out.mkdir(parents=True, exist_ok=True)
    images = out / "bitlocker.tar"
    git(cryptsetup.repo, "archive", f"--output={images}", cryptsetup.commit, IMAGES, log=out / "bitlocker.log")
    return images


def run_advice(guests: Guests, module: Module, images: Path) -> TestResult:
    """Run tools/guest/advise.py, with `bitlocker_volumes`.

    Raises UserError when the guest cannot even be started, or does not get to the end.
    """
    guest = run_guest(
        guests.kernel,
        "advise.sh",
        name="advise",
        out=guests.out,
        accel=guests.accel,
        timeout=SECONDS,
        inputs={
            "advise/dmcrypt_advise": PACKAGE,
            "images.tar": images,
            **{f"modules/{path.name}": path for path in (module.path, *module.beside)},
        },
        env={"PYTHON": os.path.realpath(sys.executable)},  # not that of a virtual environment: it has more
        cpus=1,
        memory=guests.memory,
        kernel_args=("kmemleak=off",),
        on_line=guests.on_line,
    )
    said = guest.results / "advise.ktap"
    if not said.exists():
        guest.require_success()
    report = ktap.parse(said.read_text())
    return TestResult("advise", report, guest.status, guest.warnings, cpus=1, must_run=True)
