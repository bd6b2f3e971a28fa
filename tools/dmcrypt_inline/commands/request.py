"""The target, the trees and the accelerator that the user asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..common.errors import UserError
from ..common.host import ensure_packages
from ..common.paths import log_dir
from ..common.progress import say
from ..trees.base import BaseTree, commit_to_take, prepare_base, stacked_base
from ..trees.series import Tree, apply_series
from ..trees.targets import DEFAULT, TARGETS, Target, get_target


@dataclass(frozen=True)
class Request:
    """The options of the command line: a target's name (None: see `targets` and `target`), own trees, an accelerator.

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
        """The base of the target, from the user's own tree: of a named target in any case, else if it has the files."""
        if target.below:
            below = self.tree(get_target(target.below))
            return stacked_base(target, below.path, "refs/tags/series")
        own = self.own.get(target.variable)
        if own and not self.target_name and not commit_to_take(target, own, log_dir(target.name) / "base.log"):
            say(f"{target.variable}={own} is not the base of {target.name}, which has its embedded one")
            own = None
        return prepare_base(target, own)

    def tree(self, target: Target) -> Tree:
        """The target's tree, the queue applied."""
        ensure_packages("base")
        return apply_series(target, self.base(target))
