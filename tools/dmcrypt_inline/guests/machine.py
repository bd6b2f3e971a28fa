"""What guests are made from, once everything is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..kernels.build import USER_MODE, Kernel, Module
from ..trees.series import Tree
from . import accel

UNACCELERATED = "native"  # in place of an accelerator: User-Mode Linux needs none


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
        """The accelerator that works, tried once (see accel.py); UNACCELERATED for User-Mode Linux.

        Raises UserError when the wanted one does not work.
        """
        if self.kernel.arch == USER_MODE:
            return UNACCELERATED
        return accel.choose(self.kernel, self.wanted_accel)
