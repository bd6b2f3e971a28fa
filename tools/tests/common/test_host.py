"""Host packages: nothing done when nothing is missing, and said clearly when nothing can be done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import TOOLS, cache_dir


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user on a machine with these programs only; apt-get writes down how it was called."""
    place = tmp_path / "bin"
    place.mkdir()
    script(place, "dpkg-query", 'for n; do case "$n" in git|perl) echo "$n installed" ;; esac; done; exit 1')
    script(
        place,
        "apt-get",
        f'echo "$@" >>{tmp_path}/apt; [ ! -e {tmp_path}/stale ] || {{ rm {tmp_path}/stale; exit 100; }}',
    )
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(place / name) if (place / name).exists() else None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(host, "PACKAGES", {"one": ("git", "perl"), "two": ("git", "fio", "sparse")})
    return place


def script(place: Path, name: str, body: str) -> None:
    (place / name).write_text(f"#!/bin/sh\n{body}\n")
    (place / name).chmod(0o755)


def calls(tmp_path: Path) -> list[str]:
    path = tmp_path / "apt"
    return path.read_text().splitlines() if path.exists() else []


def test_nothing_missing_means_no_apt(programs: Path, tmp_path: Path) -> None:
    host.ensure_packages("one")
    assert calls(tmp_path) == []


@pytest.mark.parametrize("sudo", ["", "exit 1"])  # none, or one that asks for a password
def test_an_ordinary_user_gets_the_command_to_type(programs: Path, tmp_path: Path, sudo: str) -> None:
    if sudo:
        script(programs, "sudo", sudo)
    with pytest.raises(UserError) as caught:
        host.ensure_packages("one", "two")
    assert "these packages are missing: fio sparse" in str(caught.value)
    assert "apt-get install --no-install-recommends fio sparse" in str(caught.value)
    assert calls(tmp_path) == []


def test_sudo_without_a_password_installs(programs: Path, tmp_path: Path) -> None:
    script(programs, "sudo", '[ "$1" = -n ] || exit 1; shift; exec "$@"')
    host.ensure_packages("two")
    assert calls(tmp_path) == ["install -y -q --no-install-recommends fio sparse"]


def test_old_lists_are_updated_once(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "stale").touch()
    host.ensure_packages("two")
    assert [call.split()[0] for call in calls(tmp_path)] == ["install", "update", "install"]


def test_an_apt_that_fails_is_quoted(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    script(programs, "apt-get", "echo no route to host; exit 100")
    with pytest.raises(UserError, match="no route to host"):
        host.ensure_packages("two")


def test_without_dpkg_the_packages_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="not a Debian system"):
        host.missing_packages(["git"])


def test_every_python_package_has_an_exact_version() -> None:
    lines = [line for line in host.REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert all("==" in line for line in lines)


def test_the_environment_that_runs_this_is_not_made_again() -> None:
    assert host.python_env() == Path(sys.prefix)
    assert list((cache_dir() / "python").glob("[!.]*")) == []


def test_a_stage_goes_on_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "stage.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(TOOLS)!r})\n"
        "from pathlib import Path\n"
        "from dmcrypt_inline.common import host\n"
        f"host.python_env = lambda: Path({sys.prefix!r})\n"
        "host.enter_python_env()\n"
        "import matplotlib\n"
        "print(sys.prefix, sys.argv[1:])\n"
    )
    # -I: nothing of the environment that runs this test reaches the outer interpreter.
    outer = [f"{sys.base_prefix}/bin/python3", "-I", str(tmp_path / "stage.py"), "a b"]
    done = subprocess.run(outer, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{sys.prefix} ['a b']\n"


def test_a_python_environment_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements.txt").write_text("/no/such/package\n")
    monkeypatch.setattr(host, "REQUIREMENTS", tmp_path / "requirements.txt")
    monkeypatch.setattr(host, "ensure_packages", lambda *_: None)
    with pytest.raises(UserError, match="could not be made"):
        host.python_env()
    (left,) = (cache_dir() / "python").glob("[!.]*")
    assert not (left / ".complete").exists()
