"""Which archive of the machine's own serves a suite."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from small import make_target

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


def test_a_package_in_the_cache_needs_no_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    target = replace(make_target(tmp_path), package=Package("linux-source-0.1", "bullseye-security"))
    with pytest.raises(UserError):
        archive.package_file(target, tmp_path / "log")
    for time, version in enumerate(("0.1-2", "0.1-1")):
        deb = cache_dir() / "packages" / f"linux-source-0.1_{version}" / f"linux-source-0.1_{version}_all.deb"
        deb.parent.mkdir(parents=True)
        deb.touch()
        os.utime(deb.parent, (time, time))
    for wanted, version in (("", "0.1-1"), ("0.1-2", "0.1-2")):
        fixed = replace(target, package=replace(target.package, version=wanted))
        assert archive.version_of(archive.package_file(fixed, tmp_path / "log")) == version
