"""Which archive of the machine's own serves a suite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import make_target

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import cache_dir
from dmcrypt_inline.common.run import CommandError
from dmcrypt_inline.trees import archive
from dmcrypt_inline.trees.targets import Recipe, Target

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
        ("http://mirror.example/debian/ stable\n", "bullseye", ["http://mirror.example/debian/"]),
        ("", "bullseye-security", []),
    ],
)
def test_archive_uris(listing: str, suite: str, expected: list[str]) -> None:
    assert archive.archive_uris(listing, "bookworm", suite) == expected


@pytest.fixture
def target(tmp_path: Path) -> Target:
    recipe = Recipe("linux-source-0.1", "bullseye-security", "0.1-1", "small.tar.xz", Path("base.patch"), {})
    return replace(make_target(tmp_path), recipe=recipe)


def fake_apt(monkeypatch: pytest.MonkeyPatch, place: Path, script: str) -> None:
    """Put an apt-get of ours before the system's."""
    place.mkdir()
    (place / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
    (place / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr(archive, "KEYRING", place / "apt-get")
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"})


KNOWN = 'echo "http://mirror.example/ bookworm-security"'


@pytest.mark.parametrize(
    ("apt", "why"),
    [
        (f'case "$1" in indextargets) {KNOWN} ;; *) exit 100 ;; esac', "is the network up"),
        ("echo http://vendor.example/apt nodistro", "names no Debian archive"),
        (KNOWN, r"missing\.gpg is missing; apt-get install debian-archive-keyring"),
        ("exit 1", "needs Debian's apt"),
    ],
)
def test_what_is_missing_is_said_with_the_way_out(
    target: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, apt: str, why: str
) -> None:
    fake_apt(monkeypatch, tmp_path / "bin", apt)
    if apt == KNOWN:
        monkeypatch.setattr(archive, "KEYRING", tmp_path / "missing.gpg")
    with pytest.raises(UserError, match=rf"{why}(.|\n)*CRYPTSETUP=") as caught:
        archive.package_file(replace(target, variable="CRYPTSETUP"), tmp_path / "log")
    assert not isinstance(caught.value, CommandError)
    assert not list((cache_dir() / "packages").glob("[!.]*"))


def test_a_package_in_the_cache_needs_no_apt(target: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    deb = cache_dir() / "packages" / "linux-source-0.1_0.1-1" / "linux-source-0.1_0.1-1_all.deb"
    deb.parent.mkdir(parents=True)
    deb.touch()
    assert archive.package_file(target, tmp_path / "log") == deb


GIVES_FILES = """\
case "$1" in indextargets) echo "http://mirror.example/ bookworm-security"; exit ;; esac
[ "$3" != update ] || cat "$(dirname "$2")/sources.list" >>{calls}
shift 2
echo "$@" >>{calls}
case "$1" in
download) touch small_0.1_all.deb ;;
esac
"""


@pytest.fixture
def moving(target: Target) -> Target:
    return replace(target, recipe=replace(target.recipe, version=""))


def fake_cache(place: Path, answer: str) -> None:
    """Put an apt-cache of ours beside the apt-get of `fake_apt`."""
    (place / "apt-cache").write_text(f"#!/bin/sh\necho {answer}\n")
    (place / "apt-cache").chmod(0o755)


def test_a_recipe_without_a_version_takes_the_newest_and_keeps_it(
    moving: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    fake_apt(monkeypatch, tmp_path / "bin", GIVES_FILES.format(calls=calls))
    fake_cache(tmp_path / "bin", "linux-source-0.1 linux-source-0.11")
    first = archive.package_file(moving, tmp_path / "log")
    assert archive.package_file(moving, tmp_path / "log") == first
    assert calls.read_text().splitlines()[1:] == ["update", "download linux-source-0.1"]


def test_an_archive_that_has_moved_on_is_said_to_have(
    moving: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_apt(monkeypatch, tmp_path / "bin", GIVES_FILES.format(calls=tmp_path / "calls"))
    fake_cache(tmp_path / "bin", "linux-source-0.11")
    with pytest.raises(UserError, match=r"has moved on: it holds no linux-source-0\.1 any more") as caught:
        archive.package_file(moving, tmp_path / "log")
    assert "LINUX=" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "version"),
    [("linux-source-7.3_7.3.4-1~bpo13+1_all.deb", "7.3.4-1~bpo13+1"), ("small_2%3a0.3-1_amd64.deb", "2:0.3-1")],
)
def test_version_of(name: str, version: str) -> None:
    assert archive.version_of(Path("/cache") / name) == version
