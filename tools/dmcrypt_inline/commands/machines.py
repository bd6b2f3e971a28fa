"""Build the kernels, modules and programs of guests, as the user asked."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import git
from ..common.paths import log_dir
from ..guests.machine import Machine
from ..kernels.build import build_kernel, build_variant
from ..kernels.build_programs import Programs, build_programs
from ..testing.mutants import Mutant
from ..trees.series import Tree, snapshot
from ..trees.targets import CRYPTSETUP, get_target
from .request import Request

NAME = re.compile(r"(?!(base|series|raw|patch-\d\d)$)[A-Za-z0-9][A-Za-z0-9._-]*")  # of a driver of the user's own


def patched_cryptsetup(request: Request) -> Programs:
    """cryptsetup with its queue. Raises UserError when that does not apply or build."""
    return build_programs(request.tree(get_target(CRYPTSETUP)))


def make_machine(
    request: Request,
    tree: Tree,
    flavour: str,
    names: Sequence[str],
    mutants: Sequence[Mutant] = (),
    *,
    kernel_of: Tree | None = None,
) -> Machine:
    """The kernel for guests, of the tree `kernel_of` or of `tree`, and the variants `names` and `mutants`.

    Names are "base", "series", and those of `steps`.
    """
    kernel = build_kernel(kernel_of or tree, flavour)
    commits = {"base": tree.base, **steps(tree), "series": tree.series}
    modules = {name: build_variant(kernel, tree, commits[name], name) for name in names}
    for mutant in mutants:
        modules[mutant.name] = build_variant(kernel, tree, tree.series, mutant.name, patch=mutant.patch)
    return Machine(tree, kernel, modules, request.accel)


def steps(tree: Tree) -> dict[str, str]:
    """The commits that change dm-crypt by variant's name, "patch-02" for the second patch.

    Without the last of them, which is "series".
    """
    log = log_dir(tree.target.name) / "variants.log"
    words = ("rev-list", f"{tree.base}..{tree.series}", "--", *tree.target.replaced)
    changing = git(tree.path, *words, log=log).output.split()
    found = {f"patch-{number:02d}": commit for number, commit in enumerate(tree.commits, 1) if commit in changing}
    return dict(list(found.items())[:-1])


def machine_as_it_stands(request: Request, variant: str, flavour: str) -> tuple[str, Machine]:
    """A machine with one variant, and its name: the tree with all edits and commits that the queue does not have.

    Raises UserError when the variant is not base, series or a file.
    """
    given = {} if variant in ("base", "series") else drivers_wanted([variant])
    name, driver = next(iter(given.items()), (variant, None))
    tree = request.tree(request.kernel_target())
    commit = snapshot(tree)
    kernel = build_kernel(tree, flavour, commit)
    module = build_variant(kernel, tree, tree.base if name == "base" else commit, name, driver=driver)
    module = replace(module, uncommitted=commit != tree.series)
    return name, Machine(tree, kernel, {name: module}, request.accel)


def drivers_wanted(words: Sequence[str]) -> dict[str, Path]:
    """Drivers' files by variant. Raises UserError for a word that is no file, and for a name that is taken."""
    found: dict[str, Path] = {}
    for word in words:
        name, _, path = (word if "=" in word else f"given={word}").rpartition("=")
        if name in found or not NAME.fullmatch(name) or Path(path).suffix != ".c" or not Path(path).is_file():
            raise UserError(f"VARIANT={word}: not base, series or a file [NAME=]path/to/dm-crypt.c with a new name")
        found[name] = Path(path)
    return found
