"""Shell scripts in place of guests, for the tests of suites and guests."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dmcrypt_inline.guests.machine import Machine
from dmcrypt_inline.kernels.build import HOST, USER_MODE, Kernel, Module
from dmcrypt_inline.kernels.build_programs import Programs
from dmcrypt_inline.testing import files, guest_tests, suites
from dmcrypt_inline.trees.series import Tree
from dmcrypt_inline.trees.targets import get_target

PROGRAMS = Path(__file__).with_name("programs")


def make_kernel(place: Path) -> Kernel:
    modules = place / "modules"
    modules.mkdir()
    (modules / "null_blk.ko").write_text("a module")
    (place / "config").write_text("CONFIG_DM_CRYPT=m\n")
    prepared = (place, place, "abc", HOST)
    return Kernel(*prepared, "linux-5.8", "fast", "5.8.0", place, modules, place, place / "config")


def stand_in(monkeypatch: pytest.MonkeyPatch, place: Path, body: str) -> None:
    """Replace virtme-run by `body` (sh), which finds what programs/virtme-run sets."""
    directory = place / "env" / "bin"
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROGRAMS / "virtme-run", directory)
    (directory / "virtme-run.body").write_text(body)
    monkeypatch.setattr("dmcrypt_inline.common.host.python_env", lambda: place / "env")


def user_mode(kernel: Kernel, body: str) -> Kernel:
    """A kernel for User-Mode Linux, which is a program: `body` (sh) finds what programs/linux sets."""
    image = shutil.copy(PROGRAMS / "linux", kernel.modules.parent)
    Path(f"{image}.body").write_text(body)
    return replace(kernel, arch=USER_MODE, image=Path(image))


# Test files in place of those of selftests/, and the lines at their tops.
TESTS = {
    "cryptsetup/options": "",
    "cryptsetup_on_base/options": "",
    "dm-crypt/table": "",
    "dm-crypt/regressions": "",
    "functional/arguments": "",
    "functional/io": "",
    "functional/load": "",
}


def make_tests(place: Path, monkeypatch: pytest.MonkeyPatch, said: Mapping[str, str] = TESTS) -> None:
    """Replace selftests/ by these test files, with these lines at their tops."""
    for name, head in said.items():
        path = place / "tests" / f"{name}.sh"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{head}")
        path.chmod(0o755)
    monkeypatch.setattr(files, "TESTS", place / "tests")


CRYPTSETUP = Programs(Path("a prefix"), Path("source"), "2.3.7", "")


def run_test(said: str, status: int | str = 0) -> str:
    """A body in which the test prints `said` (for printf) and ends with `status`."""
    return (
        '. "$SHARE/input/environment"; cd "$SHARE/results"; echo "guest test: $TEST"; '
        f'printf "{said}" >output.ktap; echo {status} >status; echo 0 >"$SHARE/status"'
    )


def make_guests(kernel: Kernel, place: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> guest_tests.Guests:
    """Guests in which each test prints `said` and passes."""
    stand_in(monkeypatch, place, run_test(said))
    make_tests(place, monkeypatch)
    return guest_tests.Guests(kernel, CRYPTSETUP, "tcg", place / "out", quick=True)


def make_machine(kernel: Kernel, place: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> Machine:
    """A machine with base and series, for suites; each test prints `said` and passes."""
    make_guests(kernel, place, monkeypatch, said)
    monkeypatch.setattr(suites, "environment", lambda *_: {})
    modules = {name: module(place, name) for name in ("base", "series")}
    return Machine(Tree(get_target("linux-5.8"), place, "", "", (), "", "a test"), kernel, modules, "tcg")


def module(place: Path, name: str) -> Module:
    (place / name).mkdir(exist_ok=True)
    for file in ("dm-crypt", name):
        (place / name / f"{file}.ko").write_text(name)
    return Module(name, place / name, "")
