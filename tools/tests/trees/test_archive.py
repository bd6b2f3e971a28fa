import os
from dataclasses import replace
from pathlib import Path

import pytest
from small import make_target

from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import cache_dir
from dmcrypt_inline.trees import archive
from dmcrypt_inline.trees.targets import Package

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


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(__file__).parents[1] / 'programs'}:/usr/bin:/bin")
    monkeypatch.setitem(host.FILES, "debian-archive-keyring", ("bin/sh",))
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"})


def test_a_newer_package_is_taken_once_a_day(tmp_path: Path, apt: None) -> None:
    package = Package("linux-source-0.1", "bullseye-security")
    moving = replace(make_target(tmp_path / "target"), package=package)

    def version(newest: str | None, *, later: bool = False) -> str:
        """The version that is taken when the archive has `newest` (None: there is no archive)."""
        (tmp_path / "newest").write_text(newest) if newest else (tmp_path / "newest").unlink(missing_ok=True)
        for path in (cache_dir() / "packages").glob("*_*" if later else "none"):
            os.utime(path, (0, path.stat().st_mtime - 2 * archive.DAY))
        return archive.version_of(archive.package_file(moving, tmp_path / "log"))

    with pytest.raises(UserError):
        version(None)
    assert version("0.1-1") == "0.1-1"
    assert version("0.1-2") == "0.1-1"
    assert version("0.1-2", later=True) == "0.1-2"
    assert version(None, later=True) == "0.1-2"


def test_the_newest_source_package_of_a_series_is_taken(
    tmp_path: Path, apt: None, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = replace(
        make_target(tmp_path / "target"), variable="CRYPTSETUP", package=Package("tool", "bullseye-security", "1.*")
    )
    log = tmp_path / "log"
    (tmp_path / "newest").write_text("2.0-1")
    (cache_dir() / "packages" / "tool_2:0.9-1").mkdir(parents=True)  # of another target
    with pytest.raises(UserError):
        archive.package_file(tool, log)
    (tmp_path / "newest").write_text("1.2-1")
    taken = archive.package_file(tool, log)
    assert (taken.name, archive.version_of(taken)) == ("tool_1.2-1.orig.tar.gz", "1.2-1")
    (tmp_path / "newest").write_text("2.0-1")
    os.utime(taken.parent, (0, 0))
    assert archive.package_file(tool, log) == taken
    assert "has tool 2.0-1, wanted 1.*" in capsys.readouterr().out
