"""The targets: one row a tree and version that a queue applies to.

Adding a backport is a new row here and a new directory for its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError
from .paths import REPO

TOOLS = REPO / "tools"
CONFIG = TOOLS / "config"
FLAVOURS = ("fast", "debug")


@dataclass(frozen=True)
class Recipe:
    """How the embedded base comes from a Debian source package, then a patch of ours.

    `suite` holds `package` at exactly `version` (a suite that ends in -security is
    looked for in the security archive); `tarball` lies in the package; `patch`
    takes the tree back to the target's files.
    """

    package: str
    suite: str
    version: str
    tarball: str
    patch: Path


@dataclass(frozen=True)
class Target:
    """One upstream tree at one version, with the queue that applies to it.

    `source` is the file that variants replace; `blobs` maps paths to the
    abbreviated git blob ids the base must have; `fragments` maps a flavour of
    kernel to its config fragments, later ones winning.
    """

    name: str
    upstream: str
    tag: str
    series: Path
    patches: Path
    cover: Path
    source: str
    recipe: Recipe
    blobs: Mapping[str, str]
    fragments: Mapping[str, tuple[Path, ...]]


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="linux-5.8",
            upstream="Linux mainline, the tree of the posting",
            tag="v5.8-rc2",
            series=REPO / "series",
            patches=REPO / "patches",
            cover=REPO / "cover-letter.txt",
            source="drivers/md/dm-crypt.c",
            recipe=Recipe(
                package="linux-source-5.10",
                suite="bullseye-security",
                version="5.10.262-1",
                tarball="usr/src/linux-source-5.10.tar.xz",
                patch=TOOLS / "targets" / "linux-5.8" / "base.patch",
            ),
            blobs={
                "drivers/md/dm-crypt.c": "000ddfab5ba0",
                "Documentation/admin-guide/device-mapper/dm-crypt.rst": "eea3b79d61ee",
            },
            fragments={
                "fast": (CONFIG / "guest.config", CONFIG / "fast.config"),
                "debug": (CONFIG / "guest.config", CONFIG / "debug.config"),
            },
        ),
    )
}


def get_target(name: str) -> Target:
    """The target called `name`; UserError lists the known names otherwise."""
    try:
        return TARGETS[name]
    except KeyError:
        raise UserError(f"unknown target: {name}\n  TARGET= takes one of: {', '.join(TARGETS)}") from None
