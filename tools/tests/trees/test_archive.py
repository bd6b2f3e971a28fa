"""Which archive of the machine's own serves a suite."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from small import make_target

from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import cache_dir
from dmcrypt_inline.trees import archive
from dmcrypt_inline.trees.targets import Package, Target

PLAIN = """\
http://mirror.example/debian/ bookworm
http://mirror.example/debian/ bookworm-updates
http://mirror.example/debian-security/ bookworm-security
"""
ELSEWHERE = """\
https://vendor.example/apt/ nodistro
https://safe.example/updates/ bookworm-security
file:/srv/mirror/debian/ bookworm
https://mirror.example/debian/ bookworm-backports
"""


@pytest.mark.parametrize(
    ("listing", "suite", "expected"),
    [
        (PLAIN, "bullseye-security", ["http://mirror.example/debian-security/"]),
        (ELSEWHERE, "bullseye-security", ["https://safe.example/updates/"]),
        (ELSEWHERE, "bullseye", ["file:/srv/mirror/debian/"]),
        ("http://mirror.example/debian/ stable\n", "bullseye", ["http://mirror.example/debian/"]),
    ],
)
def test_archive_uris(listing: str, suite: str, expected: list[str]) -> None:
    assert archive.archive_uris(listing, "bookworm", suite) == expected


# An apt-get that knows one version, which stands in the file "newest".
APT_GET = """\
#!/bin/sh
cd "$PLACE" || exit
newest=$(cat newest) || exit 100
case "$*" in
*indextargets*) echo "http://mirror.example/ bookworm-security" ;;
*--print-uris*) echo "'http://mirror.example/x.deb' linux-source-0.1_${newest}_all.deb 9 SHA256:0" ;;
*download*) touch "$OLDPWD/linux-source-0.1_${newest}_all.deb" ;;
esac
"""


@pytest.fixture
def moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target whose package has no fixed version, on a machine with APT_GET."""
    (tmp_path / "apt-get").write_text(APT_GET)
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setitem(host.FILES, "debian-archive-keyring", ("bin/sh",))
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"})
    package = Package("linux-source-0.1", "bullseye-security")
    return replace(make_target(tmp_path / "target"), package=package)


def versions(target: Target, place: Path, newest: str | None, *, later: bool = True) -> list[str]:
    """The versions in the cache after the archive got `newest` (None: there is no archive), a day later."""
    if newest:
        (place / "newest").write_text(newest)
    else:
        (place / "newest").unlink(missing_ok=True)
    for path in (cache_dir() / "packages").glob("*" if later else "none"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 2 * archive.DAY))
    return [archive.version_of(path) for path in archive.package_files(target, place / "log")]


def test_a_newer_package_is_taken_once_a_day(moving: Target, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        versions(moving, tmp_path, None)
    assert versions(moving, tmp_path, "0.1-1") == ["0.1-1"]
    assert versions(moving, tmp_path, "0.1-2", later=False) == ["0.1-1"]
    assert versions(moving, tmp_path, "0.1-2") == ["0.1-2", "0.1-1"]
    assert versions(moving, tmp_path, None) == ["0.1-2", "0.1-1"]


def test_a_fixed_version_in_the_cache_needs_no_apt(moving: Target, tmp_path: Path) -> None:
    fixed = replace(moving, package=replace(moving.package, version="0.1-0"))
    deb = cache_dir() / "packages" / "linux-source-0.1_0.1-0" / "linux-source-0.1_0.1-0_all.deb"
    deb.parent.mkdir(parents=True)
    deb.touch()
    assert versions(fixed, tmp_path, None) == ["0.1-0"]
