"""A kernel with its modules, ready to boot; and the choice between KVM, where a trial boot works, and TCG."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import build_dir
from ..common.progress import say, step
from ..kernels.build import USER_MODE, Kernel, Module
from ..trees.series import Tree
from .guest import COUNTED, run_guest
from .runs import new_run

UNACCELERATED = "native"  # in place of an accelerator: User-Mode Linux needs none
KVM = Path("/dev/kvm")
TRIAL_SECONDS = 30.0  # KVM boots in about 2 s; where it hangs, it never ends
# The kernel prints this early in its boot under KVM (arch/x86/kernel/cpu/hypervisor.c).
UNDER_KVM = "Hypervisor detected: KVM"


@dataclass(frozen=True)
class Machine:
    """The queue's tree, a kernel, its dm-crypt modules by variant, and the accelerator.

    `wanted_accel` is the user's choice: "kvm", "tcg", UNACCELERATED or None.
    """

    tree: Tree
    kernel: Kernel
    modules: Mapping[str, Module]
    wanted_accel: str | None

    @property
    def state(self) -> str:
        """ "uncommitted" when the tree has edits or commits that the queue does not have, else "committed"."""
        return "uncommitted" if any(module.uncommitted for module in self.modules.values()) else "committed"

    def accel(self) -> str:
        """The accelerator to use (see `choose`); UNACCELERATED for User-Mode Linux.

        Raises UserError when the wanted one does not work.
        """
        if self.kernel.arch == USER_MODE:
            return UNACCELERATED
        return "tcg" if self.kernel.arch.machine else choose(self.kernel, self.wanted_accel)


def choose(kernel: Kernel, wanted: str | None) -> str:
    """ "kvm" or "tcg" for this kernel on this machine, or COUNTED.

    `wanted` (ACCEL=) is one of these words, or None for KVM where a trial boot works and TCG elsewhere.
    Raises UserError when KVM is wanted and does not work.
    """
    if wanted in ("tcg", COUNTED):
        return wanted
    failure = why_not_kvm(kernel)
    if not failure:
        return "kvm"
    if wanted == "kvm":
        raise UserError(f"ACCEL=kvm, but {failure}\n  ACCEL=tcg, or no ACCEL=, uses the emulator, which is slower")
    say(f"KVM is not used: {failure}")
    return "tcg"


@cache
def why_not_kvm(kernel: Kernel) -> str:
    """Boot the kernel under KVM; the reason when that fails, else ""."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return f"{KVM} is missing or not accessible to this user"
    out = new_run(build_dir(kernel.target), "kvm-trial")
    with step(f"trial boot under KVM, at most {TRIAL_SECONDS:.0f} s; ACCEL=tcg does without", out / "console.log"):
        trial = run_guest(kernel, "nothing.sh", name="kvm-trial", out=out, accel="kvm", timeout=TRIAL_SECONDS)
    if trial.status != 0:
        return f"it does not run this kernel: {trial.why} (console: {trial.console})"
    if UNDER_KVM not in trial.console.read_text(errors="replace"):  # QEMU falls back to TCG without a word
        return f"QEMU did not use it (console: {trial.console})"
    return ""
