"""guest.py and machine.py: with shell scripts in place of virtme-run, QEMU and User-Mode Linux."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from guests import stand_in, user_mode

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests import guest, machine
from dmcrypt_inline.guests.guest import GuestResult, open_shell, run_guest
from dmcrypt_inline.guests.machine import Machine
from dmcrypt_inline.kernels.build import Kernel


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


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo nothing to see; exit 255", "the guest ended before its script did"),
        ("echo waiting; sleep 60", "the guest did not end within 1 s"),
    ],
)
def test_a_guest_that_dies_or_hangs_has_no_status(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    stand_in(monkeypatch, tmp_path, body)
    begin = time.monotonic()
    result = boot(kernel, tmp_path, timeout=1.0)
    assert time.monotonic() - begin < 10
    assert (result.status, result.why) == (None, why)
    with pytest.raises(UserError, match=why):
        result.require_success()


def test_a_guest_is_stopped_soon_after_a_warning_and_has_failed(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complains = 'echo $$ >"$PIDFILE"; echo "BUG: KASAN: use-after-free in f"; echo 0 >"$SHARE/status"'
    for body in (complains, f"{complains}; exec sleep 60"):
        stand_in(monkeypatch, tmp_path, body)
        begin = time.monotonic()
        result = boot(kernel, tmp_path, timeout=30.0, grace=1.0)
        assert time.monotonic() - begin < 10
        assert [warning.kind for warning in result.warnings] == ["KASAN"]
        assert ("was stopped" in result.why) == (body != complains)
        with pytest.raises(UserError, match="the kernel complained 1 times"):
            result.require_success()


def test_user_mode_linux_is_told_where_and_what(kernel: Kernel, tmp_path: Path) -> None:
    native = user_mode(kernel, 'echo "$SCRIPT" >"$SHARE/output"; echo up >&2; echo 0 >"$SHARE/status"')
    lines: list[str] = []
    result = boot(native, tmp_path, lines=lines)
    result.require_success()
    assert lines == ["nothing.sh"]
    assert "up" in result.console.read_text()
    assert Machine(None, native, {}, "kvm").accel() == "native"  # type: ignore[arg-type]


def test_each_user_mode_linux_with_one_cpu_keeps_to_one_of_the_host(kernel: Kernel, tmp_path: Path) -> None:
    native = user_mode(kernel, 'sleep 1; taskset -cp $$ >"$SHARE/output"; echo 0 >"$SHARE/status"')

    def affinity(number: int, cpus: int) -> str:
        out, lines = tmp_path / f"run-{number}", list[str]()
        run_guest(
            native, "nothing.sh", name="test", out=out, accel="native", timeout=20, cpus=cpus, on_line=lines.append
        ).require_success()
        return lines[0].rpartition(" ")[2]

    here = sorted(os.sched_getaffinity(0))
    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(affinity, range(2), (1, 1)))
    assert sorted(seen) == sorted(str(cpu) for cpu in (here * 2)[:2])
    ours = subprocess.run(["sh", "-c", "taskset -cp $$"], capture_output=True, text=True, check=True).stdout
    assert affinity(2, 2) == ours.strip().rpartition(" ")[2]


def test_a_guest_that_is_stopped_cannot_complain_of_that(kernel: Kernel, tmp_path: Path) -> None:
    cleans_up = """trap 'echo "BUG: sleeping in console_exit"; exit 1' TERM; echo $$ >"$PID"; echo "BUG: first"; """
    native = user_mode(kernel, cleans_up + "while :; do sleep 0.1; done")
    result = boot(native, tmp_path, timeout=30.0, grace=1.0)
    assert [warning.first for warning in result.warnings] == ["BUG: first"]


def test_a_guest_that_counts_has_one_cpu(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.choose(kernel, "icount") == "icount"
    seen = tmp_path / "seen"
    stand_in(monkeypatch, tmp_path, f'echo 0 >"$SHARE/status"; echo "$all" >{seen}')
    for chosen, cpus in (("tcg", "2"), ("icount", "1")):
        run_guest(kernel, "nothing.sh", name="test", out=tmp_path / "run", accel=chosen, timeout=20.0)
        given = seen.read_text()
        assert f" --cpus {cpus} " in given
        assert ("-icount shift=0" in given) == (chosen == "icount")
        assert "--disable-kvm" in given


def test_accel_without_kvm(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "KVM", tmp_path / "no-kvm")
    assert machine.choose(kernel, None) == "tcg"
    for wanted, why in (("kvm", r"ACCEL=kvm, but .* is missing"), ("xen", "unknown accelerator: xen")):
        with pytest.raises(UserError, match=why):
            machine.choose(kernel, wanted)


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
    monkeypatch.setattr(machine, "KVM", device)
    monkeypatch.setattr(machine, "TRIAL_SECONDS", 2.0)
    stand_in(monkeypatch, tmp_path, body)
    assert machine.choose(kernel, None) == ("tcg" if why else "kvm")
    stand_in_gone = tmp_path / "env" / "bin" / "virtme-run"
    stand_in_gone.unlink()  # the second answer comes from memory
    if why:
        with pytest.raises(UserError, match=why):
            machine.choose(kernel, "kvm")
    else:
        assert machine.choose(kernel, "kvm") == "kvm"


def on_a_terminal(kernel: Kernel, place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a guest with a shell was told of the terminal."""
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("os.get_terminal_size", lambda: os.terminal_size((101, 37)))
    monkeypatch.setenv("TERM", "vt102")
    open_shell(kernel, out=place / "run", accel="tcg", inputs={}, env={"CRYPTSETUP_PREFIX": "/opt/x"})
    return (place / "run" / "share" / "input" / "environment").read_text()


def test_a_shell_knows_its_terminal(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, 'echo 7 >"$SHARE/status"')
    told = on_a_terminal(kernel, tmp_path, monkeypatch)
    for line in ("TERM=vt102", "COLUMNS=101", "LINES=37", "CRYPTSETUP_PREFIX=/opt/x"):
        assert f"export {line}\n" in told
    stand_in(monkeypatch, tmp_path, "exit 0")
    with pytest.raises(UserError, match="ended before its shell did"):
        on_a_terminal(kernel, tmp_path, monkeypatch)
    native = user_mode(kernel, 'echo "$@" >"$SHARE/results/told"; echo 0 >"$SHARE/status"')
    on_a_terminal(native, tmp_path, monkeypatch)
    assert "con0=fd:0,fd:1" in (tmp_path / "run" / "share" / "results" / "told").read_text()


def test_a_shell_wants_a_terminal(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs a terminal"):
        open_shell(kernel, out=tmp_path / "run", accel="tcg", inputs={}, env={})


def test_memory_is_on_no_disk_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "SHARED_MEMORY", tmp_path)
    assert guest._for_memory(tmp_path / "run", "1M") == str(tmp_path)
    assert guest._for_memory(tmp_path / "run", "9999999G") == str(tmp_path / "run" / "tmp")
    monkeypatch.setattr(guest, "SHARED_MEMORY", tmp_path / "none")
    assert guest._for_memory(tmp_path / "run", "1M") == str(tmp_path / "run" / "tmp")
