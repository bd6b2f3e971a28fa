"""guest.py, accel.py, guest_tests.py: how runs end, told with a stand-in for virtme-run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dmcrypt_inline import accel, guest_tests
from dmcrypt_inline.build import Kernel, Module
from dmcrypt_inline.build_cryptsetup import Cryptsetup
from dmcrypt_inline.complaints import scan
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.guest import GuestResult, run_guest
from dmcrypt_inline.ktap import parse
from dmcrypt_inline.run import CommandError

# Finds the shared directory and the pid file as virtme-run and QEMU would; $SHARE and $PIDFILE are for the body.
STAND_IN = """#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	--rwdir) SHARE=${2#*=} ;;
	-pidfile) PIDFILE=$2 ;;
	esac
	shift
done
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A kernel that no stand-in looks at."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "null_blk.ko").write_text("a module")
    return Kernel("linux-5.8", "fast", "5.8.0", tmp_path, tmp_path, tmp_path, modules, tmp_path, "abc")


def stand_in(monkeypatch: pytest.MonkeyPatch, place: Path, body: str) -> None:
    """Let `body` (sh) be what virtme-run does."""
    program = place / "env" / "bin" / "virtme-run"
    program.parent.mkdir(parents=True)
    program.write_text(STAND_IN + body)
    program.chmod(0o755)
    monkeypatch.setattr("dmcrypt_inline.host.python_env", lambda: place / "env")


def boot(
    kernel: Kernel, place: Path, *, timeout: float = 20.0, grace: float = 20.0, lines: list[str] | None = None
) -> GuestResult:
    """One run of nothing.sh."""
    return run_guest(
        kernel,
        "nothing.sh",
        name="test",
        out=place / "run",
        accel="tcg",
        timeout=timeout,
        grace=grace,
        on_line=None if lines is None else lines.append,
    )


def test_reports_status_and_passes_on_every_line(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = 'printf "one\\ntw" >"$SHARE/output"; sleep 1; printf "o\\nend" >>"$SHARE/output"; echo 3 >"$SHARE/status"'
    stand_in(monkeypatch, tmp_path, body)
    lines: list[str] = []
    result = boot(kernel, tmp_path, lines=lines)
    assert lines == ["one", "two", "end"]
    assert result.status == 3
    with pytest.raises(UserError, match="exit status 3"):
        result.require_success()


def test_shares_modules_and_scripts_in_private(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, 'cp -r "$SHARE/input" "$SHARE/results/seen"; echo 0 >"$SHARE/status"')
    result = boot(kernel, tmp_path)
    result.require_success()
    assert (result.results / "seen" / "modules" / "null_blk.ko").read_text() == "a module"
    assert (result.results / "seen" / "guest" / "enter.sh").exists()
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_a_guest_that_dies_has_no_status(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "echo nothing to see; exit 255")
    result = boot(kernel, tmp_path)
    assert result.status is None
    with pytest.raises(UserError, match="ended before its script did"):
        result.require_success()


def test_a_guest_that_hangs_is_killed(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "echo waiting; sleep 60")
    begin = time.monotonic()
    result = boot(kernel, tmp_path, timeout=1.0)
    assert time.monotonic() - begin < 10
    assert (result.status, result.why) == (None, "the guest did not end within 1 s")


def test_a_complaint_fails_a_run_that_says_it_succeeded(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, 'echo "BUG: KASAN: use-after-free in f"; echo 0 >"$SHARE/status"')
    result = boot(kernel, tmp_path)
    assert [complaint.kind for complaint in result.complaints] == ["KASAN"]
    with pytest.raises(UserError, match="the kernel complained 1 times"):
        result.require_success()


def test_a_guest_is_stopped_soon_after_a_complaint(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, 'echo $$ >"$PIDFILE"; echo "BUG: scheduling while atomic: fio/1"; exec sleep 60')
    begin = time.monotonic()
    result = boot(kernel, tmp_path, timeout=30.0, grace=1.0)
    assert time.monotonic() - begin < 10
    assert "was stopped" in result.why


def test_a_missing_virtme_run_is_an_error(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.host.python_env", lambda: tmp_path / "nowhere")
    with pytest.raises(CommandError, match="could not start"):
        boot(kernel, tmp_path)


def test_accel_refuses_an_unknown_word(kernel: Kernel) -> None:
    with pytest.raises(UserError, match="unknown accelerator: xen"):
        accel.choose(kernel, "xen")


def test_accel_without_kvm(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "KVM", tmp_path / "no-kvm")
    assert accel.choose(kernel, None) == "tcg"
    with pytest.raises(UserError, match=r"ACCEL=kvm, but .* is missing"):
        accel.choose(kernel, "kvm")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('echo "Hypervisor detected: KVM"; echo 0 >"$SHARE/status"', ""),
        ('echo "falling back to tcg"; echo 0 >"$SHARE/status"', "QEMU did not use it"),
        ('echo "Hypervisor detected: KVM"; sleep 60', "does not run this kernel: the guest did not end"),
    ],
)
def test_kvm_is_believed_only_after_a_trial(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(accel, "KVM", device)
    monkeypatch.setattr(accel, "TRIAL_SECONDS", 2.0)
    stand_in(monkeypatch, tmp_path, body)
    assert accel.choose(kernel, None) == ("tcg" if why else "kvm")
    stand_in_gone = tmp_path / "env" / "bin" / "virtme-run"
    stand_in_gone.unlink()  # the second answer comes from memory
    if why:
        with pytest.raises(UserError, match=why):
            accel.choose(kernel, "kvm")
    else:
        assert accel.choose(kernel, "kvm") == "kvm"


def test_complaints_are_blamed_on_the_test_that_ran() -> None:
    console = "boot\n[ 1.0] guest test: one\nBUG: first\n[ 2.0] guest test: two\nfine\nWARNING: second\n"
    blamed = guest_tests.blame(console, scan(console), ["one", "two"])
    assert {name: [c.first for c in found] for name, found in blamed.items()} == {
        "": [],
        "one": ["BUG: first"],
        "two": ["WARNING: second"],
    }


@pytest.mark.parametrize(
    ("text", "status", "complaint", "counts", "tripped"),
    [
        ("1..2\nok 1 a\nok 2 b\n", 0, "", (2, 0, 0), False),
        ("1..2\nok 1 a\nnot ok 2 b\n", 1, "", (1, 1, 0), True),
        ("1..1\nok 1 a\n", 0, "BUG: x", (1, 1, 0), True),
        ("1..2\nok 1 a\n", None, "", (1, 2, 0), False),
        ("1..1\nok 1 a\n", 1, "", (1, 1, 0), False),
        ("1..0 # SKIP needs root\n", 4, "", (0, 0, 1), False),
        ("1..0 # SKIP needs root\n", 0, "", (0, 1, 1), False),
        ("1..1\nBail out! no disk\n", 1, "", (0, 2, 0), False),
        ("", None, "", (0, 2, 0), False),
    ],
)
def test_a_test_counts_for_what_it_did(
    text: str, status: int | None, complaint: str, counts: tuple[int, int, int], tripped: bool
) -> None:
    result = guest_tests.TestResult("name", parse(text), status, scan(complaint))
    assert (result.counts.passed, result.counts.failed, result.counts.skipped) == counts
    assert result.tripped == tripped


def test_a_test_is_told_where_cryptsetup_is(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'cd "$SHARE/results"; printf "1..1\\nok 1 a\\n" >table_roundtrip.ktap; echo 0 >table_roundtrip.status'
    stand_in(monkeypatch, tmp_path, f'{said}; cp ../input/environment {tmp_path}/seen; echo 0 >"$SHARE/status"')
    (tmp_path / "dm-crypt.ko").touch()
    built = Cryptsetup("cryptsetup-2.3", tmp_path / "a prefix", tmp_path / "tests", "2.3.7", "", "")
    guests = guest_tests.Guests(kernel, built, "tcg", tmp_path / "out", None)
    [result] = guests.run(Module("series", tmp_path / "dm-crypt.ko", ""), ["table_roundtrip"], 20.0)
    assert result.counts.passed == 1
    told = (tmp_path / "seen").read_text().splitlines()
    assert f"export CRYPTSETUP_PREFIX='{tmp_path}/a prefix'" in told
    assert f"export CRYPTSETUP_TESTS={tmp_path}/tests" in told


def test_a_wrong_variant_must_name_its_test(tmp_path: Path) -> None:
    patch = tmp_path / "variant.patch"
    patch.write_text("Trips: table_roundtrip\n\n--- a/x\n+++ b/x\n")
    assert guest_tests.must_trip(patch) == "table_roundtrip"
    patch.write_text("Trips: no_such_test\n")
    with pytest.raises(UserError, match="does not say which test must fail"):
        guest_tests.must_trip(patch)
