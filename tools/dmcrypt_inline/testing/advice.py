"""Test dmcrypt-advise in a guest: its advice for real mappings, --apply and --undo."""

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
from .guest_tests import Guests, TestResult

PACKAGE = REPO / "advise" / "dmcrypt_advise"
IMAGES = "tests/bitlk-images.tar.xz"
SECONDS = 2400.0  # only a guest that hangs takes so long


def bitlocker_volumes(cryptsetup: BaseTree, out: Path) -> Path:
    """Write an archive with the BitLocker volumes of cryptsetup's own tests into `out`, and return it."""
    out.mkdir(parents=True, exist_ok=True)
    images = out / "bitlocker.tar"
    git(cryptsetup.repo, "archive", f"--output={images}", cryptsetup.commit, IMAGES, log=out / "bitlocker.log")
    return images


def run_advice(guests: Guests, module: Module, images: Path) -> TestResult:
    """Run tools/guest/advise.py, with `bitlocker_volumes`.

    Raises UserError if the guest cannot be started or writes no result.
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
            **module.inputs,
        },
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
    return TestResult("advise", report, guest.status, guest.warnings, cpus=1, must_run=True)
