"""Stage 'built' for cryptsetup: library, programs and test programs, under build/<target>.

They hold their own path, so they are made where they stay and a stamp, not their
being there, says that they are whole.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import UserError
from ..common.gitrepo import check_out, resolve
from ..common.jobs import jobs
from ..common.paths import GIB, build_dir, cache_dir, disk_guard, is_complete, locked, log_dir, stamp
from ..common.progress import step
from ..common.run import run
from ..trees.series import Tree

# Nothing is to be found or put outside the prefix; what the caller's environment holds must not decide.
CONFIGURE = (
    *("--with-crypto_backend=openssl", "--enable-luks2-reencryption", "--disable-nls", "--with-tmpfilesdir=no"),
    *("CC=gcc", "CPPFLAGS=", "LDFLAGS=", "LIBS="),
)
CFLAGS = "-g -O2"
BUILD_SPACE = GIB // 4  # 60 MB of sources, objects and programs
AWKWARD = re.compile(r"[^\w./+,@%=:-]")  # in a path; libtool cannot install there


@dataclass(frozen=True)
class Cryptsetup:
    """One built and installed cryptsetup.

    `prefix` holds sbin, lib and so on; the programs run by their absolute path.
    `tests` is the tests directory of its sources, test programs built. `version`
    is what the program says; `key` identifies the build (sha256, hex), `queue_hash`
    the queue that was applied.
    """

    target: str
    prefix: Path
    tests: Path
    version: str
    queue_hash: str
    key: str


def build_cryptsetup(tree: Tree) -> Cryptsetup:
    """The tree with its queue, built under build/<target>/series, or reused from there.

    The tree is only read. Raises UserError when a program fails, when the disk is
    too small, or when there is no place that libtool can install to.
    """
    log = log_dir(tree.target.name) / "build.log"
    place = _place(tree.target.name) / "series"
    source, prefix = place / "source", place / "installed"
    compiler = run(["gcc", "--version"], log=log, timeout=60).output.splitlines()[0]
    files = resolve(tree.path, f"{tree.series}^{{tree}}", log)
    key = hashlib.sha256("\n".join([str(place), str(files), compiler, CFLAGS, *CONFIGURE]).encode()).hexdigest()
    with locked(place):
        if not is_complete(place, key):
            shutil.rmtree(place, ignore_errors=True)
            with step("building cryptsetup", log), disk_guard(place, BUILD_SPACE, "a build of cryptsetup"):
                source.mkdir(parents=True)
                check_out(tree.path, tree.series, source, log)
                configure(source, prefix, CFLAGS, log)
                make(source, log, "all")
                make(source, log, "check", "TESTS=")  # builds the test programs, runs none
                make(source, log, "install", "DESTDIR=")
                stamp(place, key)
    said = run([prefix / "sbin" / "cryptsetup", "--version"], log=log, timeout=60).output
    return Cryptsetup(
        target=tree.target.name,
        prefix=prefix,
        tests=source / "tests",
        version=parse_version(said),
        queue_hash=tree.queue_hash,
        key=key,
    )


def configure(source: Path, prefix: Path, cflags: str, log: Path) -> None:
    """Make the build system of the sources in `source` and configure them there; raises CommandError."""
    run(["sh", "./autogen.sh"], log=log, timeout=600, cwd=source)
    arguments = [f"--prefix={prefix}", *CONFIGURE, f"CFLAGS={cflags}"]
    run(["./configure", *arguments], log=log, timeout=600, cwd=source, env={"CONFIG_SITE": "/dev/null"})


def make(source: Path, log: Path, *arguments: str) -> str:
    """Run make in the configured `source`; returns its messages, each job's in one piece."""
    return run(
        ["make", "-C", source, f"-j{jobs()}", "--output-sync=target", *arguments], log=log, timeout=1800
    ).transcript


def parse_version(said: str) -> str:
    """The version in what `cryptsetup --version` said ("cryptsetup 2.3.7"); UserError when there is none."""
    found = re.match(r"cryptsetup (\d[\w.-]*)", said)
    if found is None:
        raise UserError(f"the cryptsetup that was built does not say its version, but:\n  {said.strip()}")
    return found[1]


def _place(target_name: str) -> Path:
    """Where builds of the target go: build/<target>, or the cache where libtool cannot cope with that path."""
    places = (build_dir(target_name), cache_dir() / "cryptsetup" / target_name)
    for place in places:
        if not AWKWARD.search(str(place)):
            return place
    raise UserError(
        "libtool cannot install to a path with a space or another special character, and both places have one:\n"
        f"  {places[0]}\n  {places[1]}\n  set DMCRYPT_INLINE_CACHE to a directory without"
    )
