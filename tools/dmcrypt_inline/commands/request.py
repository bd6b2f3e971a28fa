"""What the user asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..bench import guest_run as bench_stage
from ..common.errors import UserError
from ..common.host import ensure_packages
from ..trees.base import BaseTree, own_tree, prepare_base
from ..trees.outbox import Posting
from ..trees.series import Tree, apply_series
from ..trees.targets import DEFAULT, TARGETS, Target, get_target


@dataclass(frozen=True)
class Request:
    """What the user asked for: a target's name (None: see `targets` and `target`), an accelerator, own trees.

    `own` maps a target's variable (LINUX, CRYPTSETUP) to the user's tree. `quick`
    `variant` and `tests` (none: all) are for the selftests, `minutes` and `seed` (0: any) for the
    soak, `mutants` names the wrong drivers (none: all).
    `files` are results files, `metric` and `to` are for compare: a key of stats.METRICS, one of compare.TO.
    `only_check` of figures: say what is stale instead of writing it. `bench` is what to measure, `posting` how to post.
    """

    target_name: str | None
    own: Mapping[str, Path]
    accel: str | None
    quick: bool = False
    variant: str = "series"
    tests: tuple[str, ...] = ()
    minutes: int = 60
    seed: int = 0
    mutants: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    metric: str = ""
    to: str = ""
    only_check: bool = False
    bench: bench_stage.Wanted = field(default_factory=bench_stage.Wanted)
    posting: Posting = field(default_factory=lambda: Posting(""))

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
        """The target asked for, or all of them."""
        return [get_target(self.target_name)] if self.target_name else list(TARGETS.values())

    def base(self, target: Target) -> BaseTree:
        """The base of the target, from the user's own tree where that is meant for it."""
        return prepare_base(target, own_tree(target, self.own, named=self.target_name is not None))

    def tree(self, target: Target) -> Tree:
        """The target's tree, the queue applied."""
        ensure_packages("base")
        return apply_series(target, self.base(target))
