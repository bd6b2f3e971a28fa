"""What the user asked for, and the options that several sub-commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..common.errors import UserError
from ..common.host import ensure_packages
from ..guests.guest import COUNTED
from ..guests.machine import UNACCELERATED
from ..trees.base import BaseTree, own_tree, prepare_base, stacked_base
from ..trees.series import Tree, apply_series
from ..trees.targets import DEFAULT, TARGETS, Target, get_target

Add = Callable[..., argparse.ArgumentParser]  # `add_stage` without its first argument
OWN_TREE = "checkout or source tree; it is only read (default: the embedded base)"
EMULATED = ("kvm", "tcg")


def add_stage(
    stages: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    call: Callable[..., int],
    *,
    target: str = DEFAULT,
    own: str = OWN_TREE,
    accel: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """The parser of a sub-command; `call` gets a Request, and by their names what further arguments are added.

    `target`: what it takes for the target without --target; `own`: what it says of own trees; `accel`: choices. What
    is empty is no option of this sub-command.
    """
    stage = stages.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    stage.set_defaults(call=call)
    if target:
        stage.add_argument("--target", help=f"what the queue applies to: {', '.join(TARGETS)} (default: {target})")
    if own:
        for option, what in (("--linux", "kernel"), ("--cryptsetup", "cryptsetup")):
            stage.add_argument(option, metavar="DIR", help=f"your own {what} {own}")
    if accel:
        how = "how the guest runs (default: KVM where a trial boot works, else TCG)"
        how += "; native is User-Mode Linux" if UNACCELERATED in accel else ""
        how += "; icount is TCG with one CPU and a clock that counts its instructions" if COUNTED in accel else ""
        stage.add_argument("--accel", choices=accel, help=how)
    return stage


@dataclass(frozen=True)
class Request:
    """What the user asked for: a target's name (None: see `targets` and `target`), own trees, an accelerator.

    `own` maps a target's variable (LINUX, CRYPTSETUP) to the user's tree.
    """

    target_name: str | None = None
    own: Mapping[str, Path] = field(default_factory=dict)
    accel: str | None = None

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
        """The target asked for, or all of them but the long-term ones."""
        if self.target_name:
            return [get_target(self.target_name)]
        return [target for target in TARGETS.values() if not target.long_term]

    def base(self, target: Target) -> BaseTree:
        """The base of the target, from the user's own tree where that is meant for it."""
        if target.below:
            below = self.tree(get_target(target.below))
            return stacked_base(target, below.path, "refs/tags/series")
        return prepare_base(target, own_tree(target, self.own, named=self.target_name is not None))

    def tree(self, target: Target) -> Tree:
        """The target's tree, the queue applied."""
        ensure_packages("base")
        return apply_series(target, self.base(target))
