"""Which archive of the machine's own serves a suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmcrypt_inline import archive
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.paths import cache_dir
from dmcrypt_inline.run import CommandError
from dmcrypt_inline.targets import Recipe

PLAIN = """\
http://mirror.example/debian/ bookworm
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
        (PLAIN, "trixie-backports", ["http://mirror.example/debian/"]),
        (ELSEWHERE, "bullseye-security", ["https://safe.example/updates/"]),
        (ELSEWHERE, "bullseye", ["file:/srv/mirror/debian/"]),
        ("https://vendor.example/apt/ nodistro\n", "bullseye", []),
        ("", "bullseye-security", []),
    ],
)
def test_archive_uris(listing: str, suite: str, expected: list[str]) -> None:
    assert archive.archive_uris(listing, "bookworm", suite) == expected


def test_a_release_named_stable_is_the_machine_s_own() -> None:
    assert archive.archive_uris("http://mirror.example/debian/ stable\n", "bookworm", "bullseye")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('NAME="Debian GNU/Linux"\nVERSION_CODENAME=bookworm\nID=debian\n', "bookworm"),
        ('VERSION_CODENAME="trixie"\n', "trixie"),
        ("ID=other\n", ""),
    ],
)
def test_os_codename(text: str, expected: str) -> None:
    assert archive.os_codename(text) == expected


RECIPE = Recipe("linux-source-0.1", "bullseye-security", "0.1-1", "small.tar.xz", Path("base.patch"))


def fake_apt(monkeypatch: pytest.MonkeyPatch, place: Path, script: str) -> None:
    """Put an apt-get of ours before the system's."""
    place.mkdir()
    (place / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
    (place / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr(archive, "KEYRING", place / "apt-get")
    (place / "os-release").write_text("VERSION_CODENAME=bookworm\n")
    monkeypatch.setattr(archive, "OS_RELEASE", place / "os-release")


def test_no_network_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = 'echo "http://mirror.example/ bookworm-security"'
    script = f'case "$1" in indextargets) {known} ;; *) echo unreachable; exit 100 ;; esac'
    fake_apt(monkeypatch, tmp_path / "bin", script)
    with pytest.raises(UserError, match="is the network up") as caught:
        archive.source_package(RECIPE, tmp_path / "log")
    assert "LINUX=" in str(caught.value)
    assert "unreachable" in str(caught.value)
    assert not list((cache_dir() / "packages").glob("[!.]*"))


def test_a_machine_without_debian_s_archive_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_apt(monkeypatch, tmp_path / "bin", "echo http://vendor.example/apt nodistro")
    with pytest.raises(UserError, match="names no Debian archive"):
        archive.source_package(RECIPE, tmp_path / "log")


def test_a_machine_without_apt_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs Debian's apt") as caught:
        archive.source_package(RECIPE, tmp_path / "log")
    assert not isinstance(caught.value, CommandError)


def test_a_package_in_the_cache_needs_no_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    deb = cache_dir() / "packages" / "linux-source-0.1_0.1-1" / "linux-source-0.1_0.1-1_all.deb"
    deb.parent.mkdir(parents=True)
    deb.touch()
    assert archive.source_package(RECIPE, tmp_path / "log") == deb
