"""Directories of the project, its builds and its cache, whose entries are created atomically."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from .errors import UserError
from .progress import say, step

REPO = Path(__file__).resolve().parents[3]
TOOLS = REPO / "tools"
BUILD = REPO / "build"

GIB = 1 << 30
SOURCE_TREE = 2 * GIB  # an unpacked kernel (1.1 GiB) and its git objects, with room to spare
KERNEL_BUILD = 2 * GIB  # an O= directory of the small configs, debug information off

CACHE_KINDS = {
    "packages": "downloaded packages",
    "bases": "base trees, as git repositories",
    "sources": "sources of kernel builds",
    "kernels": "kernels",
    "modules": "builds of dm-crypt",
    "programs": "builds of cryptsetup",
    "diagnostics": "the compilers' messages about a patch",
    "images": "disk images for make package-test",
    "roots": "user space of guests with another processor",
    "python": "Python environments",
}


def build_dir(target_name: str) -> Path:
    """build/<target>: everything generated for one target (created when missing)."""
    path = BUILD / target_name
    path.mkdir(parents=True, exist_ok=True)
    return path


def log_dir(target_name: str) -> Path:
    """build/<target>/log: what the programs wrote."""
    path = build_dir(target_name) / "log"
    path.mkdir(exist_ok=True)
    return path


def cache_dir() -> Path:
    """The user's cache: downloads and builds keyed by content.

    $DMCRYPT_INLINE_CACHE, or dmcrypt-inline below $XDG_CACHE_HOME or ~/.cache.
    """
    above = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("DMCRYPT_INLINE_CACHE") or Path(above, "dmcrypt-inline")).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def use_entry(kind: str, name: str) -> Path:
    """Record that this run uses a cache entry, so that `prune` keeps it; return its path, which may not exist yet."""
    assert kind in CACHE_KINDS
    path = cache_dir() / kind / name
    path.parent.mkdir(exist_ok=True)
    with prune_lock(fcntl.LOCK_SH):
        lock_of(path).touch()
    return path


@contextmanager
def prune_lock(how: int) -> Iterator[None]:
    """Hold the lock between `prune`, which takes LOCK_EX, and the runs that begin to use an entry (LOCK_SH)."""
    with (cache_dir() / ".prune.lock").open("a") as lock:
        fcntl.flock(lock, how)
        yield


def lock_of(path: Path) -> Path:
    """The file that is locked while an entry is made; its time is the last use of the entry."""
    return path.with_name(f".{path.name}.lock")


def require_space(path: Path, need: int, what: str) -> None:
    """Raise UserError unless `need` bytes are free where `path` lies (or will lie)."""
    place = next(each for each in (path, *path.parents) if each.exists())
    free = shutil.disk_usage(place).free
    if free < need:
        raise UserError(
            f"not enough disk space for {what}: {free / GIB:.1f} GiB free at {path}, {need / GIB:.1f} GiB needed\n"
            "  make room there, or set DMCRYPT_INLINE_CACHE to a directory on another disk"
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the exclusive lock of the entry `path`; wait while another run makes the same entry.

    The programs that we run inherit the lock: if we are killed and they go on writing, the next run waits for them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_of(path).open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run, or for programs of a killed run, to end their work on {path}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # also for programs that another thread has started meanwhile


def publish(final: Path, make: Callable[[Path], None], need: int, what: str, log: Path | None = None) -> Path:
    """Create the directory `final` atomically, unless it exists, and return it.

    `make` fills a temporary sibling, which is then renamed; an interrupted run
    leaves only that sibling, which the next run removes. `need` is in bytes.
    `what` names the work; with the `log` of a long one, the terminal shows it.
    Raises UserError when the disk is too small, and whatever `make` raises.
    """
    if final.exists():
        return final
    with step(what, log) if log else nullcontext(), locked(final):
        if final.exists():
            return final
        prefix = f".{final.name}.part-"
        for stale in final.parent.glob(f"{prefix}*"):
            shutil.rmtree(stale)
        require_space(final, need, what)
        part = Path(tempfile.mkdtemp(prefix=prefix, dir=final.parent))
        try:
            make(part)
            part.chmod(0o755)
            part.rename(final)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return final


def is_complete(path: Path, key: str) -> bool:
    """Check that the directory `path` was stamped with `key` (see `stamp`)."""
    try:
        return (path / ".complete").read_text() == key
    except OSError:
        return False


def stamp(path: Path, key: str) -> None:
    """Mark `path` as complete, if it cannot be renamed (it contains its own path). Call it last, under `locked`."""
    fresh = path / ".complete.part"
    fresh.write_text(key)
    fresh.rename(path / ".complete")
