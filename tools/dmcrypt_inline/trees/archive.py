"""Debian packages, through a private apt root that leaves the system's own untouched."""

from __future__ import annotations

import platform
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import publish, use_entry
from ..common.progress import step
from ..common.run import CommandError, run
from .targets import Recipe, Target

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # from the package debian-archive-keyring
DOWNLOAD = 1 << 29  # bytes: a kernel source package (120 MB) and apt's lists


def archive_uris(indextargets: str, codename: str, suite: str) -> list[str]:
    """The machine's own archives that may hold `suite`, best first.

    `indextargets` is what `apt-get indextargets --format '$(REPO_URI) $(RELEASE)'`
    prints: one "URI release" a line. The archive of the machine's own release
    serves the other releases of its kind too: the security one for a suite that
    ends in -security, the main one for all others.
    """
    security = suite.endswith("-security")
    wanted = {f"{codename}-security", "stable-security"} if security else {codename, "stable"}
    found: list[str] = []
    for line in indextargets.splitlines():
        uri, _, release = line.strip().partition(" ")
        if release in wanted and uri not in found:
            found.append(uri)
    return found


def uris_of(suite: str, log: Path) -> list[str]:
    """As `archive_uris`, of this machine. Raises CommandError or OSError where it is no Debian."""
    asked = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)"], log=log, timeout=60).output
    return archive_uris(asked, platform.freedesktop_os_release().get("VERSION_CODENAME", ""), suite)


def package_file(target: Target, log: Path) -> Path:
    """The .deb of the target's recipe, or the tarball of its source package, downloaded once.

    Where the recipe names no version it is the newest, as of the download. apt
    verifies the archive's signature and the checksums. Raises UserError when the
    machine's apt knows no Debian archive, when the archive cannot be reached, or
    when it does not hold exactly that version, or the package at all.
    """
    recipe = target.recipe
    final = use_entry("packages", f"{recipe.package}_{recipe.version or 'newest'}")
    if not final.exists():
        with step(f"downloading {recipe.package} {recipe.version}".rstrip(), log):
            publish(final, lambda part: _download(target, part, log), DOWNLOAD, f"the package {recipe.package}")
    (file,) = final.glob(recipe.tarball if recipe.source else "*.deb")
    return file


def version_of(package: Path) -> str:
    """The version in the name of a .deb file as apt downloads it, where %3a stands for a colon."""
    return package.name.split("_")[1].replace("%3a", ":")


def _download(target: Target, into: Path, log: Path) -> None:
    recipe = target.recipe
    advice = f"  or use a checkout of your own: {target.variable}=<git tree or source dir>"
    try:
        uris = uris_of(recipe.suite, log)
    except (CommandError, OSError) as error:
        raise UserError(f"the embedded base needs Debian's apt: {error}\n{advice}") from error
    if not uris:
        raise UserError(
            f"apt on this machine names no Debian archive for a suite like {recipe.suite}\n"
            f"  add the archive of your release to apt's sources\n{advice}"
        )
    if not KEYRING.exists():
        raise UserError(f"{KEYRING} is missing; apt-get install debian-archive-keyring\n{advice}")
    problems = []
    for number, uri in enumerate(uris):
        root = into / f"apt{number}"
        try:
            _fetch(recipe, uri, root, into, log)
        except UserError as error:
            problems.append(str(error))
            continue
        finally:
            run(["rm", "-rf", root], log=log, timeout=60)
        return
    raise UserError(
        f"could not get {recipe.package} {recipe.version or '(the newest)'} from {recipe.suite}\n"
        f"  is the network up, and does the mirror that apt uses still hold it?\n{advice}\n" + "\n".join(problems)
    )


def _fetch(recipe: Recipe, uri: str, root: Path, into: Path, log: Path) -> None:
    """apt-get update and download with lists, cache and sources of our own; proxies and so on are the system's."""
    for sub in ("state/lists/partial", "cache/archives/partial", "preferences.d"):
        (root / sub).mkdir(parents=True)
    (root / "status").touch()
    kind = "deb-src" if recipe.source else "deb"
    (root / "sources.list").write_text(f"{kind} [signed-by={KEYRING}] {uri} {recipe.suite} main\n")
    conf = root / "apt.conf"
    conf.write_text(
        "#clear APT::Update;\n"  # the system's hooks are about the system's lists
        f'Dir::Etc::sourcelist "{root}/sources.list";\n'
        'Dir::Etc::sourceparts "-";\n'
        'Dir::Etc::preferences "-";\n'
        f'Dir::Etc::preferencesparts "{root}/preferences.d";\n'
        f'Dir::State "{root}/state";\n'
        f'Dir::State::status "{root}/status";\n'
        f'Dir::Cache "{root}/cache";\n'
        'APT::Sandbox::User "root";\n'  # the cache may lie where the user _apt cannot look
        'APT::Update::Error-Mode "any";\n'
        'Acquire::Languages "none";\n'
        'Acquire::Retries "2";\n'
        'Acquire::http::Timeout "30";\n'
        'Acquire::https::Timeout "30";\n'
    )
    run(["apt-get", "-c", conf, "update"], log=log, timeout=600)
    wanted = f"{recipe.package}={recipe.version}" if recipe.version else recipe.package
    if not recipe.version:
        there = run(["apt-cache", "-c", conf, "pkgnames", recipe.package], log=log, timeout=60).output.split()
        if recipe.package not in there:
            raise UserError(f"{recipe.suite} has moved on: it holds no {recipe.package} any more")
    get = ["source", "--download-only"] if recipe.source else ["download"]
    run(["apt-get", "-c", conf, *get, wanted], log=log, timeout=1800, cwd=into)
