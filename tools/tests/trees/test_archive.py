"""Which archive of the machine's own serves a suite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import make_target

from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import archive
from dmcrypt_inline.trees.targets import Package, Target

LISTING = """\
https://vendor.example/apt/ nodistro
http://mirror.example/debian/ bookworm
file:/srv/mirror/debian/ bookworm
http://mirror.example/debian/ bookworm
http://mirror.example/debian/ bookworm-updates
http://safe.example/updates/ bookworm-security
"""
MAIN = ["http://mirror.example/debian/", "file:/srv/mirror/debian/"]


@pytest.mark.parametrize(
    ("listing", "suite", "expected"),
    [
        (LISTING, "bullseye-security", ["http://safe.example/updates/"]),
        (LISTING, "trixie-backports", MAIN),
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


def test_a_package_without_a_version_is_downloaded_once(moving: Target, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(UserError):  # there is no archive
        archive.package_file(moving, log)
    for newest in ("0.1-1", "0.1-2"):
        (tmp_path / "newest").write_text(newest)
        assert archive.version_of(archive.package_file(moving, log)) == "0.1-1"
    fixed = replace(moving, package=replace(moving.package, version="0.1-2"))
    assert archive.version_of(archive.package_file(fixed, log)) == "0.1-2"
