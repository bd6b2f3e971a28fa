import sys
from contextlib import nullcontext
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


INSTALLS = "PATH=/bin:/usr/bin; [ $1 = update ] || for name in keyctl quilt; do ln -s /bin/true {0}/bin/$name; done"
STALE = "PATH=/bin:/usr/bin; [ -e {0}/stale ] || {{ touch {0}/stale; exit 1; }}; "


PASSES = '[ "$1" = -n ] || exit 1; shift; exec "$@"'  # sudo that needs no password


@pytest.mark.parametrize(
    ("apt", "sudo", "expected", "works"),
    [
        (INSTALLS, PASSES, ["install"], True),
        (STALE + INSTALLS, PASSES, ["install", "update", "install"], True),
        ("exit 1", PASSES, ["install", "update"], False),  # the archive cannot be reached
        ("exit 0", "exit 1", [], False),  # sudo wants a password
        ("", "", [], False),  # another distribution
    ],
)
def test_missing_packages_are_installed_or_named(
    place: Path, apt: str, sudo: str, expected: list[str], works: bool
) -> None:
    calls = place.parent / "apt"
    calls.touch()
    for name, body in (("apt-get", apt and f'echo "$@" >>{calls}; {apt.format(place.parent)}'), ("sudo", sudo)):
        if body:
            script(place, name, body)
    host.ensure_packages("one")  # nothing is missing
    with nullcontext() if works else pytest.raises(UserError, match="dnf install keyutils quilt"):
        host.ensure_packages("two")
    words = [line.split() for line in calls.read_text().splitlines()]
    assert [call[0] for call in words] == expected
    assert all(call[-2:] == ["keyutils", "quilt"] for call in words if call[0] == "install")


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
