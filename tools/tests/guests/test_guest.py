"""guest.py, machine.py and runs.py: with shell scripts in place of virtme-run, QEMU and User-Mode Linux."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from guests import stand_in, user_mode

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests import machine
from dmcrypt_inline.guests.guest import GuestResult, run_guest
from dmcrypt_inline.guests.runs import KEPT, kept_runs, new_run
from dmcrypt_inline.kernels.build import Kernel

Boot = Callable[..., GuestResult]


@pytest.fixture
def boot(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Boot:
    """A function that runs `body` in place of a guest with nothing.sh."""

    def run(body: str, *, on: Kernel = kernel, timeout: float = 20.0, **more: Any) -> GuestResult:
        stand_in(monkeypatch, tmp_path, body)
        return run_guest(on, "nothing.sh", name="test", out=tmp_path / "run", accel="tcg", timeout=timeout, **more)

    return run


def test_reports_status_and_passes_on_every_line(boot: Boot) -> None:
    body = 'printf "one\\ntw" >"$SHARE/output"; sleep 1; printf "o\\nend" >>"$SHARE/output"; echo 3 >"$SHARE/status"'
    lines: list[str] = []
    result = boot(body, on_line=lines.append)
    assert lines == ["one", "two", "end"]
    assert result.status == 3
    with pytest.raises(UserError):
        result.require_success()


def test_the_shared_directory_is_private_and_used_once(boot: Boot, tmp_path: Path) -> None:
    result = boot('cp -r "$SHARE/input" "$SHARE/results/seen"; echo 0 >"$SHARE/status"')
    result.require_success()
    assert (result.results / "seen" / "modules" / "null_blk.ko").read_text() == "a module"
    assert (result.results / "seen" / "guest" / "enter.sh").exists()
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    with pytest.raises(UserError):
        boot("exit 0")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo nothing to see; exit 255", "the guest ended before its script did"),
        ("echo waiting; sleep 60", "the guest did not end within 1 s"),
        ("echo Kernel panic - not syncing; exit 1", "the guest ended before its script did"),
    ],
)
def test_a_guest_that_dies_or_hangs_has_no_status(boot: Boot, body: str, why: str) -> None:
    result = boot(body, timeout=1.0)
    assert result.seconds < 10
    assert (result.status, result.why) == (None, why)
    assert [warning.kind for warning in result.warnings] == (["kernel panic"] if "panic" in body else [])
    with pytest.raises(UserError):
        result.require_success()


@pytest.mark.parametrize(("warns", "goes_on"), [(True, False), (True, True), (False, True)])
def test_a_guest_is_killed_soon_after_a_kernel_warning_or_its_script(boot: Boot, warns: bool, goes_on: bool) -> None:
    warning = 'echo "BUG: KASAN: use-after-free in f"; ' * warns
    body = f'echo $$ >"$PIDFILE"; {warning}echo 0 >"$SHARE/status"; {"exec sleep 60" * goes_on}'
    result = boot(body, timeout=30.0, grace=1.0)
    assert result.seconds < 10
    assert [warning.kind for warning in result.warnings] == ["KASAN"] * warns
    assert ("was killed" in result.why) == goes_on
    with pytest.raises(UserError) if warns else nullcontext():
        result.require_success()


def test_a_guest_that_is_killed_prints_no_warning_about_that(boot: Boot, kernel: Kernel) -> None:
    cleans_up = """trap 'echo "BUG: sleeping in console_exit"; exit 1' TERM; echo $$ >"$PID"; echo "BUG: first"; """
    native = user_mode(kernel, cleans_up + "while :; do sleep 0.1; done")
    assert [warning.first for warning in boot("", on=native, timeout=30.0, grace=1.0).warnings] == ["BUG: first"]


@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        ('echo "Hypervisor detected: KVM"; echo 0 >"$SHARE/status"', "kvm"),
        ('echo "falling back to tcg"; echo 0 >"$SHARE/status"', "tcg"),
        ('echo "Hypervisor detected: KVM"; sleep 60', "tcg"),
        ("", "tcg"),  # there is no KVM
    ],
)
def test_kvm_is_used_only_after_a_trial(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, chosen: str
) -> None:
    if body:
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
