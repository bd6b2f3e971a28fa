"""What guests are made from, once everything is built; and what runs them: KVM where it really does, else TCG."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import build_dir
from ..common.progress import say, step
from ..kernels.build import USER_MODE, Kernel, Module
from ..trees.series import Tree
from .guest import COUNTED, run_guest

UNACCELERATED = "native"  # in place of an accelerator: User-Mode Linux needs none
KVM = Path("/dev/kvm")
TRIAL_SECONDS = 30.0  # KVM boots in about 2 s; a hanging one never ends
# What the kernel says early in its boot when it finds itself under KVM (arch/x86/kernel/cpu/hypervisor.c).
UNDER_KVM = "Hypervisor detected: KVM"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Machine:
    """The queue's tree, a kernel, its dm-crypt modules by variant, and the accelerator.

    `wanted_accel` is what the user asked for: "kvm", "tcg", UNACCELERATED or None.
    """

    tree: Tree
    kernel: Kernel
    modules: Mapping[str, Module]
    wanted_accel: str | None

    def accel(self) -> str:
        """The accelerator that works, tried once (see `choose`); UNACCELERATED for User-Mode Linux.

        Raises UserError when the wanted one does not work.
        """
        if self.kernel.arch == USER_MODE:
            return UNACCELERATED
        return choose(self.kernel, self.wanted_accel)


def choose(kernel: Kernel, wanted: str | None) -> str:
    """ "kvm" or "tcg" for this kernel on this machine, or COUNTED.

    `wanted` (ACCEL=) is one of these words, or None for the better of the first two that works. A
    trial's result holds until the machine is booted again. Raises UserError for
    any other word, and when KVM is wanted and does not work.
    """
    if wanted not in (None, "", "kvm", "tcg", COUNTED):
        raise UserError(f"unknown accelerator: {wanted}\n  ACCEL= takes kvm or tcg; without it, KVM is tried first")
    if wanted in ("tcg", COUNTED):
        return wanted
    failure = _why_not_kvm(kernel)
    if not failure:
        return "kvm"
    if wanted == "kvm":
        raise UserError(f"ACCEL=kvm, but {failure}\n  use ACCEL=tcg, or none: the emulator then does it, more slowly")
    return "tcg"


def _why_not_kvm(kernel: Kernel) -> str:
    """Why KVM cannot run this kernel here, "" when it can."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return f"{KVM} is missing or not accessible to this user"
    memory = build_dir(kernel.target) / "kvm" / f"{kernel.key}-{BOOT_ID.read_text().strip()}"
    if memory.exists():
        return memory.read_text()
    out = memory.parent / "trial"
    with step(f"trial boot under KVM, at most {TRIAL_SECONDS:.0f} s", out / "console.log"):
        trial = run_guest(kernel, "nothing.sh", name="kvm-trial", out=out, accel="kvm", timeout=TRIAL_SECONDS)
    failure = ""
    if trial.status != 0:
        failure = f"it does not run this kernel: {trial.why} (console: {trial.console})"
    elif UNDER_KVM not in trial.console.read_text(errors="replace"):  # QEMU falls back to TCG silently
        failure = f"QEMU did not use it (console: {trial.console})"
    say("KVM works" if not failure else f"KVM is not used: {failure}")
    memory.write_text(failure)
    return failure
