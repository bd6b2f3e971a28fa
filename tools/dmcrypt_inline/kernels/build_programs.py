"""Stage 'built' for targets that are programs: libraries, programs and test programs, in the cache.

Installed programs contain their own path, so a build cannot be renamed: a stamp, written last, marks a complete one.
"""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.gitrepo import resolve, update_files
from ..common.paths import GIB, is_complete, locked, log_dir, require_space, stamp, use_entry
from ..common.progress import step
from ..common.run import jobs, run
from ..trees.series import Tree

CFLAGS = "-g -O2"
BUILD_SPACE = GIB  # systemd: 500 MB of sources, objects and programs


@dataclass(frozen=True)
class Programs:
    """One built and installed target, such as cryptsetup.

    `prefix` holds sbin, lib and so on; the programs run by their absolute path. `source` has the sources, with the
    test programs. `version` is the one that the program prints, `queue_hash` that of the queue applied.
    """

    prefix: Path
    source: Path
    version: str
    queue_hash: str


def build_programs(tree: Tree) -> Programs:
    """Build and install the tree with its queue in the cache, or return the installation that is there.

    Only reads the tree. Raises UserError when a program fails or when the disk is too small.
    """
    name, build, log = tree.target.name, tree.target.build, log_dir(tree.target.name) / "build.log"
    assert build, "it is a kernel or has scripts only"
    files = str(resolve(tree.path, f"{tree.series}^{{tree}}", log))
    place = use_entry("programs", f"{name}-{files[:16]}")
    source, prefix = place / "source", place / "installed"
    compiler = run(["gcc", "--version"], log=log, timeout=60).output.splitlines()[0]
    key = hashlib.sha256("\n".join([str(place), files, compiler, CFLAGS, repr(build)]).encode()).hexdigest()
    with locked(place):
        if not is_complete(place, key):
            shutil.rmtree(place, ignore_errors=True)
            with step(f"building {name}", log):
                require_space(place, BUILD_SPACE, f"a build of {name}")
                update_files(tree.path, tree.series, source, log)
                run_commands(build.configure, source, log, prefix=prefix, cflags=CFLAGS)
                run_commands(build.make, source, log)
                run_commands(build.install, source, log)
                stamp(place, key)
    version = run([place / build.program, "--version"], log=log, timeout=60).output.split()[1]  # cryptsetup 2.3.7 ...
    return Programs(prefix, source, version, tree.queue_hash)


def run_commands(commands: Sequence[Sequence[str]], source: Path, log: Path, **words: object) -> str:
    """Run the commands of a Build in `source`. Returns their messages, those of each job of make in one piece.

    Raises CommandError.
    """
    filled = [[word.format(jobs=jobs(), **words) for word in command] for command in commands]
    env = {"CONFIG_SITE": "/dev/null"}
    return "".join(run(argv, log=log, timeout=1800, cwd=source, env=env).transcript for argv in filled)
