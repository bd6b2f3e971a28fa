import sys
from pathlib import Path

import pytest

from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import cache_dir


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory in PATH, with the programs that all tests need; the user is an ordinary one."""
    path = tmp_path / "bin"
    path.mkdir()
    for program in ("sh", "env", "true"):
        (path / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(host, "MORE_PATHS", ())
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(host, "GROUPS", {"one": ("git",), "two": ("git", "keyctl", "quilt")})
    script(path, "git", "")
    return path


def script(place: Path, name: str, body: str) -> None:
    (place / name).write_text(f"#!/bin/sh\n{body}\n")
    (place / name).chmod(0o755)


def add_apt(place: Path, body: str) -> None:
    """An apt-get that writes down its arguments, and a sudo that needs no password."""
    script(place, "apt-get", f'echo "$@" >>{place.parent}/apt; {body}')
    script(place, "sudo", '[ "$1" = -n ] || exit 1; shift; exec "$@"')


def apt_calls(place: Path) -> list[list[str]]:
    path = place.parent / "apt"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


INSTALLS = "PATH=/bin:/usr/bin; [ $1 = update ] || for name in keyctl quilt; do ln -s /bin/true {0}/bin/$name; done"
STALE = "PATH=/bin:/usr/bin; [ -e {0}/stale ] || {{ touch {0}/stale; exit 1; }}; "


@pytest.mark.parametrize(
    ("group", "body", "expected"),
    [
        ("one", "exit 1", []),
        ("two", INSTALLS, ["install"]),
        ("two", STALE + INSTALLS, ["install", "update", "install"]),
    ],
)
def test_missing_packages_are_installed(place: Path, group: str, body: str, expected: list[str]) -> None:
    add_apt(place, body.format(place.parent))
    host.ensure_packages(group)
    calls = apt_calls(place)
    assert [call[0] for call in calls] == expected
    assert all(call[-2:] == ["keyutils", "quilt"] for call in calls if call[0] == "install")


@pytest.mark.parametrize(
    ("apt", "sudo", "calls"),
    [
        ("", None, 0),  # another distribution
        ("exit 1", None, 2),  # the archive cannot be reached
        ("", "exit 1", 0),  # sudo wants a password
    ],
)
def test_missing_packages_are_named_for_each_distribution(place: Path, apt: str, sudo: str | None, calls: int) -> None:
    if apt or sudo:
        add_apt(place, apt)
    if sudo:
        script(place, "sudo", sudo)
    with pytest.raises(UserError) as caught:
        host.ensure_packages("two")
    assert "dnf install keyutils quilt" in str(caught.value)
    assert len(apt_calls(place)) == calls


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("stdlib.h", True), ("no/such.h", False), ("File::Temp", True), ("No::Such", False)),
        *(("sh", True), ("no-such-program", False), ("ensurepip", True)),
    ],
)
def test_what_is_installed(name: str, expected: bool) -> None:
    assert host.is_installed(name) is expected


def test_each_group_names_packages() -> None:
    names = {name for group in host.GROUPS.values() for name in group}
    assert set(host.PACKAGES) | set(host.FILES) <= names
    assert all(host.packages_of([name]) for name in names)


def test_every_python_package_has_an_exact_version() -> None:
    lines = [line for line in host.REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert all("==" in line for line in lines)


def test_the_environment_that_runs_this_is_not_made_again() -> None:
    assert host.python_env() == Path(sys.prefix)
    assert list((cache_dir() / "python").glob("[!.]*")) == []
