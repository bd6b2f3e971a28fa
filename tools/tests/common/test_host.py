import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from dmcrypt_inline.common import host
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import cache_dir

# Its lists of packages are too old at first.
APT = """#!/bin/sh
PATH=/bin:/usr/bin
case $1 in update) touch {0}/lists ;; *) [ -e {0}/lists ] && ln -s /bin/true {0}/keyctl ;; esac
"""


@pytest.mark.parametrize("has_apt", [True, False])
def test_missing_packages_are_installed_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_apt: bool
) -> None:
    for program in ("sh", "env", "true"):
        (tmp_path / program).symlink_to(f"/bin/{program}")
    if has_apt:
        (tmp_path / "apt-get").write_text(APT.format(tmp_path))
        (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "MORE_PATHS", ())
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(host, "GROUPS", {"one": ("sh", "keyctl")})
    with nullcontext() if has_apt else pytest.raises(UserError, match="dnf install keyutils\n"):
        host.ensure_packages("one")


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


def test_the_environment_that_runs_this_is_not_made_again() -> None:
    assert host.python_env() == Path(sys.prefix)
    assert list((cache_dir() / "python").glob("[!.]*")) == []
