"""Debian packages, through a private apt root that leaves the system's own untouched."""

import platform
import tempfile
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from ..common.errors import UserError
from ..common.host import KEYRING, install_packages
from ..common.paths import TOOLS, cache_dir, publish, use_entry
from ..common.progress import say
from ..common.run import CommandError, run
from .targets import Target

DAY = 86400  # seconds
DOWNLOAD = 1 << 29  # bytes: a kernel source package (120 MB) and apt's lists
APT_CONF = TOOLS / "apt.conf"


def archive_uris(indextargets: str, codename: str, suite: str) -> list[str]:
    """The machine's own archives that may hold `suite`, best first.

    `indextargets` is the output of `apt-get indextargets --format '$(REPO_URI) $(RELEASE)'`. The archive of the
    machine's own release serves other releases too: the security one for a suite that ends in -security, the main
    one for all others.
    """
    security = suite.endswith("-security")
    wanted = {f"{codename}-security", "stable-security"} if security else {codename, "stable"}
    lines = [line.split() for line in indextargets.splitlines()]
    return list(dict.fromkeys(words[0] for words in lines if len(words) == 2 and words[1] in wanted))


def uris_of(suite: str, log: Path) -> list[str]:
    """This machine's archives that may hold `suite`, best first. Raises UserError where there is no apt or archive."""
    try:
        asked = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)"], log=log, timeout=60).output
        found = archive_uris(asked, platform.freedesktop_os_release().get("VERSION_CODENAME", ""), suite)
    except (CommandError, OSError) as error:
        raise UserError(f"packages of {suite} need Debian's apt: {error}") from error
    if not found:
        raise UserError(
            f"apt on this machine names no Debian archive for a suite like {suite}\n"
            "  add the archive of your release to apt's sources"
        )
    return found


def package_file(target: Target, log: Path) -> Path:
    """The target's package in the cache: the .deb file, or the tarball of the source package.

    Where the target names no version, the archive is asked once a day for the newest one. apt verifies signatures and
    checksums. Raises UserError when there is no package.
    """
    wanted = target.package.version or "*"
    found = (cache_dir() / "packages").glob(f"{target.package.name}_{wanted}")
    cached = sorted(found, key=lambda place: place.stat().st_mtime)
    version = "" if "*" in wanted else wanted
    if cached and not version and time.time() - cached[-1].stat().st_mtime < DAY:
        place = use_entry("packages", cached[-1].name)
    else:
        try:
            place = _download(target, version or _newest(target, log), log)
        except UserError as error:
            if version or not cached:
                raise
            place = cached[-1]
            say(f"using {place.name}, as no newer one is known: {str(error).splitlines()[0]}")
        place.touch()  # the time of the last question
    return next(place.glob("*.deb" if target.is_kernel else "*.orig.tar.*z*"))


def version_of(package: Path) -> str:
    """The version of a package in the cache."""
    return package.parent.name.split("_")[1]


def _download(target: Target, version: str, log: Path) -> Path:
    name = target.package.name
    final = use_entry("packages", f"{name}_{version}")
    exact = f"{name}={version}" if version == target.package.version else name
    # An archive can lack the packaging of a version that its index still has.
    only = [] if target.is_kernel else ["--tar-only"]

    def make(part: Path) -> None:
        _apt_get(target, [*only, exact], part, log)

    return publish(final, make, DOWNLOAD, f"downloading {name} {version}", log)


def _newest(target: Target, log: Path) -> str:
    """The newest version of the package in the archive, without the epoch of a source package.

    Raises UserError when that is none for this target.
    """
    package = target.package
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
        said = _apt_get(target, ["--print-uris", package.name], Path(name), log)
    file = next(word for word in said.split() if word.startswith(f"{package.name}_"))
    version = file.removesuffix(".dsc").split("_")[1].replace("%3a", ":")
    if not fnmatch(version, package.version or "*"):
        raise UserError(
            f"{package.suite} has {package.name} {version}, wanted {package.version}\n"
            f"  give {target.variable}= a git tree with the tag {target.tag}"
        )
    return version


def _apt_get(target: Target, words: Sequence[str], into: Path, log: Path) -> str:
    """Download with apt-get into the directory `into`, with the suite of the target's package as its only source."""
    suite = target.package.suite
    download = ["download"] if target.is_kernel else ["source", "--download-only"]
    advice = f"  or give a checkout of your own: {target.variable}=<git tree>"
    try:
        uris = uris_of(suite, log)
    except UserError as error:
        raise UserError(f"{error}\n{advice}") from error
    if install_packages("archive"):
        raise UserError(f"{KEYRING} is missing: install the package debian-archive-keyring\n{advice}")
    problems = []
    for uri in uris:
        with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as name:
            try:
                apt = _private_apt(target, uri, Path(name))
                run([*apt, "update"], log=log, timeout=600)
                return run([*apt, *download, *words], log=log, timeout=1800, cwd=into).output
            except CommandError as error:
                problems.append(str(error))
    raise UserError(
        f"could not get {target.package.name} from {suite}\n"
        "  check that the network works, and that the suite still holds this package\n" + "\n".join([advice, *problems])
    )


def _private_apt(target: Target, uri: str, root: Path) -> list[str | Path]:
    """The beginning of an apt-get command with lists, cache and sources of its own below `root`."""
    for sub in ("state/lists/partial", "cache/archives/partial", "preferences.d"):
        (root / sub).mkdir(parents=True)
    (root / "status").touch()
    kind = "deb" if target.is_kernel else "deb-src"
    (root / "sources.list").write_text(f"{kind} [signed-by={KEYRING}] {uri} {target.package.suite} main\n")
    (root / "apt.conf").write_text(APT_CONF.read_text().replace("{root}", str(root)))
    return ["apt-get", "-c", root / "apt.conf"]
