"""Guests that are shell scripts, for the tests of what runs in guests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dmcrypt_inline.kernels.build import HOST, USER_MODE, Kernel, Module
from dmcrypt_inline.kernels.build_cryptsetup import Cryptsetup
from dmcrypt_inline.testing import guest_tests, suites

# Finds the shared directory and the pid file as virtme-run and QEMU would; $SHARE and $PIDFILE are for the body.
STAND_IN = """#!/bin/sh
all=$*
while [ $# -gt 0 ]; do
	case $1 in
	--rwdir) SHARE=${2#*=} ;;
	-pidfile) PIDFILE=$2 ;;
	esac
	shift
done
"""


def make_kernel(place: Path) -> Kernel:
    """A kernel that no stand-in looks at."""
    modules = place / "modules"
    modules.mkdir()
    (modules / "null_blk.ko").write_text("a module")
    return Kernel("linux-5.8", "fast", HOST, "5.8.0", place, place, place, modules, place, "abc")


def stand_in(monkeypatch: pytest.MonkeyPatch, place: Path, body: str) -> None:
    """Let `body` (sh) be what virtme-run does."""
    program = place / "env" / "bin" / "virtme-run"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(STAND_IN + body)
    program.chmod(0o755)
    monkeypatch.setattr("dmcrypt_inline.common.host.python_env", lambda: place / "env")


def user_mode(kernel: Kernel, body: str) -> Kernel:
    """A kernel for User-Mode Linux, which is a program: `body` (sh) finds $SHARE, $PID and $SCRIPT."""
    image = kernel.modules.parent / "linux"
    image.write_text(
        "#!/bin/sh\nfor word; do\n"
        "case $word in\n"
        """guest_share=*) SHARE=${word#*=}; SHARE=${SHARE#\\"}; SHARE=${SHARE%\\"} ;;\n"""
        "guest_script=*) SCRIPT=${word#*=} ;;\n"
        "uml_dir=*) PID=${word#*=}guest/pid; mkdir -p ${PID%/*} ;;\n"
        "esac\ndone\n" + body
    )
    image.chmod(0o755)
    return replace(kernel, arch=USER_MODE, image=image)


# What the tests of a stand-in say at their tops.
TESTS = {
    "cryptsetup/options": "",
    "cryptsetup_on_base/options": "",
    "dm-crypt/table": "# CPUs: 1\n",
    "dm-crypt/regressions": "",
    "functional/arguments": "# CPUs: 1\n",
    "functional/io": "",
    "functional/load": "# CPUs: 2\n",
    "functional/pools": "# Kernel arguments: cryptd.cryptd_max_cpu_qlen=1000\n",
    **{f"functional/test_{number}": "" for number in range(8)},
}


def make_tests(place: Path, monkeypatch: pytest.MonkeyPatch, said: Mapping[str, str] = TESTS) -> None:
    """Let the test files be those in `said`, in place of ours."""
    for name, head in said.items():
        path = place / "tests" / f"{name}.sh"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{head}")
        path.chmod(0o755)
    monkeypatch.setattr(guest_tests, "TESTS", place / "tests")


CRYPTSETUP = Cryptsetup("cryptsetup-2.3", Path("a prefix"), Path("tests"), "2.3.7", "", "")


def make_guests(
    kernel: Kernel,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    *,
    status: int = 0,
    mark: str = "guest test: $test",
) -> guest_tests.Guests:
    """Guests in which each test says `said` and ends with `status`."""
    body = (
        '. "$SHARE/input/environment"; cd "$SHARE/results"; for test in $TESTS; do mkdir -p "${test%/*}"; '
        f'echo "{mark}"; echo "# $test" >>"$SHARE/output"; '
        f"printf '{said}' >$test.ktap; echo {status} >$test.status; done; "
        'echo 0 >"$SHARE/status"'
    )
    stand_in(monkeypatch, place, body)
    make_tests(place, monkeypatch)
    return guest_tests.Guests(kernel, CRYPTSETUP, "tcg", place / "out", quick=True)


def found_in(guests: guest_tests.Guests, monkeypatch: pytest.MonkeyPatch) -> list[suites.Outcome]:
    """The list to which a suite that runs in `guests` adds what it finds."""
    found: list[suites.Outcome] = []
    monkeypatch.setattr(suites, "_guests", lambda *_, **__: guests)
    monkeypatch.setattr(suites, "_close", lambda *given: found.extend(given[-1]))
    return found


def module(place: Path, name: str) -> Module:
    """A module that no stand-in loads."""
    (place / f"{name}.ko").touch()
    return Module(name, place / f"{name}.ko", "")
