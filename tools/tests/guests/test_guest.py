"""guest.py, machine.py and runs.py: with shell scripts in place of virtme-run, QEMU and User-Mode Linux."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from guests import stand_in, user_mode

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests import guest, machine
from dmcrypt_inline.guests.guest import GuestResult, run_guest
from dmcrypt_inline.guests.runs import KEPT, kept_runs, new_run
from dmcrypt_inline.kernels.build import Kernel


def boot(
    kernel: Kernel, out: Path, *, timeout: float = 20.0, grace: float = 20.0, lines: list[str] | None = None
) -> GuestResult:
    return run_guest(
        kernel,
        "nothing.sh",
        name="test",
        out=out,
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
    result = boot(kernel, tmp_path / "run", lines=lines)
    assert lines == ["one", "two", "end"]
    assert result.status == 3
    with pytest.raises(UserError):
        result.require_success()


def test_the_shared_directory_is_private_and_used_once(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, 'cp -r "$SHARE/input" "$SHARE/results/seen"; echo 0 >"$SHARE/status"')
    result = boot(kernel, tmp_path / "run")
    result.require_success()
    assert (result.results / "seen" / "modules" / "null_blk.ko").read_text() == "a module"
    assert (result.results / "seen" / "guest" / "enter.sh").exists()
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    with pytest.raises(UserError):
        boot(kernel, tmp_path / "run")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo nothing to see; exit 255", "the guest ended before its script did"),
        ("echo waiting; sleep 60", "the guest did not end within 1 s"),
        ("echo Kernel panic - not syncing; exit 1", "the guest ended before its script did"),
    ],
)
def test_a_guest_that_dies_or_hangs_has_no_status(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    stand_in(monkeypatch, tmp_path, body)
    start = time.monotonic()
    result = boot(kernel, tmp_path / "run", timeout=1.0)
    assert time.monotonic() - start < 10
    assert (result.status, result.why) == (None, why)
    assert [warning.kind for warning in result.warnings] == (["kernel panic"] if "panic" in body else [])
    with pytest.raises(UserError):
        result.require_success()


def test_each_part_of_a_console_is_searched_once(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []

    def find(text: str, _expected: object) -> list[object]:
        searched.append(len(text))
        return []

    monkeypatch.setattr(guest, "find_warnings", find)
    stand_in(monkeypatch, tmp_path, "for n in 1 2 3 4 5 6 7 8; do echo a line of the console; sleep 0.25; done")
    size = boot(kernel, tmp_path / "run").console.stat().st_size
    assert sum(searched[:-1]) <= size  # the last search is that of the complete console, for the result


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_guest_is_killed_soon_after_a_kernel_warning(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    warns = 'echo $$ >"$PIDFILE"; echo "BUG: KASAN: use-after-free in f"; echo 0 >"$SHARE/status"'
    stand_in(monkeypatch, tmp_path, f"{warns}; {'exec sleep 60' if goes_on else ''}")
    start = time.monotonic()
    result = boot(kernel, tmp_path / "run", timeout=30.0, grace=1.0)
    assert time.monotonic() - start < 10
    assert [warning.kind for warning in result.warnings] == ["KASAN"]
    assert ("was killed" in result.why) == goes_on
    with pytest.raises(UserError):
        result.require_success()


def test_a_guest_that_is_killed_prints_no_warning_about_that(kernel: Kernel, tmp_path: Path) -> None:
    cleans_up = """trap 'echo "BUG: sleeping in console_exit"; exit 1' TERM; echo $$ >"$PID"; echo "BUG: first"; """
    native = user_mode(kernel, cleans_up + "while :; do sleep 0.1; done")
    result = boot(native, tmp_path / "run", timeout=30.0, grace=1.0)
    assert [warning.first for warning in result.warnings] == ["BUG: first"]


def test_accel_without_kvm(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "KVM", tmp_path / "no-kvm")
    assert machine.choose(kernel, None) == "tcg"
    for wanted in ("kvm", "xen"):
        with pytest.raises(UserError):
            machine.choose(kernel, wanted)


WORKS = 'echo "Hypervisor detected: KVM"; echo 0 >"$SHARE/status"'


@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        (WORKS, "kvm"),
        ('echo "falling back to tcg"; echo 0 >"$SHARE/status"', "tcg"),
        ('echo "Hypervisor detected: KVM"; sleep 60', "tcg"),
    ],
)
def test_kvm_is_used_only_after_a_trial(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, chosen: str
) -> None:
    (tmp_path / "kvm").touch()
    monkeypatch.setattr(machine, "KVM", tmp_path / "kvm")
    monkeypatch.setattr(machine, "TRIAL_SECONDS", 2.0)
    stand_in(monkeypatch, tmp_path, body)
    assert machine.choose(kernel, None) == chosen
    if chosen == "tcg":
        with pytest.raises(UserError):
            machine.choose(kernel, "kvm")


def test_each_run_has_a_directory_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: new_run(tmp_path, "test"), range(KEPT + 5)))
    assert len(set(runs)) == KEPT + 5
    assert all(run.is_dir() for run in runs)  # they are new, so they may be in use
    for name in ("test-20200101-000000-1", "test-long-20200101-000000-1"):
        (tmp_path / "runs" / name).mkdir()
    newest = new_run(tmp_path, "test")
    assert (tmp_path / "test").resolve() == newest
    assert set(kept_runs(tmp_path, "test")) == {*runs, newest}
    assert len(kept_runs(tmp_path, "test-long")) == 1
