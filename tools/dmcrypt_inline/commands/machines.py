"""What guests need, built from what the user asked for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..common.gitrepo import git
from ..common.paths import log_dir
from ..guests.machine import Machine
from ..kernels.build import Kernel, Module, build_kernel, build_module
from ..kernels.build_cryptsetup import Cryptsetup, build_cryptsetup
from ..testing.mutants import Mutant
from ..trees.series import Tree, driver_commits
from ..trees.targets import CRYPTSETUP, get_target
from .request import Request


def patched_cryptsetup(request: Request) -> Cryptsetup:
    """cryptsetup with its queue. Raises UserError when that does not apply or build."""
    return build_cryptsetup(request.tree(get_target(CRYPTSETUP)))


def module_at(
    tree: Tree, kernel: Kernel, commit: str, name: str, mine: Path | None = None, *, back: bool = False
) -> Module:
    """dm-crypt of a commit of the tree; `mine` is a patch on top, or to take `back`, or a driver (.c) in its place.

    Raises UserError when the patch does not apply, and when the driver does not build.
    """
    log = log_dir(tree.target.name) / "variants.log"
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as place:
        sources = [Path(place) / path for path in tree.target.replaced]
        for path, source in zip(tree.target.replaced, sources):
            source.parent.mkdir(parents=True)
            source.write_text(git(tree.path, "show", f"{commit}:{path}", log=log).output)
        if mine is not None and mine.suffix == ".c":
            shutil.copyfile(mine, sources[0])
        elif mine is not None:
            git(Path(place), "init", "-q", log=log)  # else git apply looks for a repository further up
            how = [*(["--reverse"] if back else []), *(f"--include={path}" for path in tree.target.replaced)]
            git(Path(place), "apply", *how, mine, log=log)
        return build_module(kernel, sources[0], name, sources[1:])


def with_released(machine: Machine) -> Machine:
    """The machine with the driver of the package that its base was taken back from, as the variant `released`."""
    recipe = machine.tree.target.recipe
    module = module_at(machine.tree, machine.kernel, machine.tree.base, "released", recipe.patch, back=True)
    return replace(machine, modules={**machine.modules, module.name: module})


def make_machine(
    request: Request,
    tree: Tree,
    flavour: str,
    names: Sequence[str],
    wrong: Sequence[Mutant] = (),
    *,
    kernel_of: Tree | None = None,
) -> Machine:
    """Guests' kernel, of the tree `kernel_of` or the same one, and modules: the variants `names`, and wrong ones."""
    kernel = build_kernel(kernel_of or tree, flavour)
    modules = {name: module_at(tree, kernel, tree.base if name == "base" else tree.series, name) for name in names}
    modules |= {mutant.name: module_at(tree, kernel, tree.series, mutant.name, mutant.patch) for mutant in wrong}
    return Machine(tree, kernel, modules, request.accel)


def steps(tree: Tree) -> dict[str, str]:
    """The commits that change dm-crypt by variant's name, "patch-02" for the second patch.

    Without the last of them, which is "series".
    """
    log = log_dir(tree.target.name) / "variants.log"
    return {f"patch-{number:02d}": commit for number, commit in list(driver_commits(tree, log).items())[:-1]}


def with_steps(machine: Machine) -> Machine:
    """The machine with a variant for each commit of the queue that changes dm-crypt, in their order."""
    commits = steps(machine.tree)
    further = {name: module_at(machine.tree, machine.kernel, commit, name) for name, commit in commits.items()}
    first = {name: module for name, module in machine.modules.items() if name != "series"}
    return replace(machine, modules={**first, **further, "series": machine.modules["series"]})
