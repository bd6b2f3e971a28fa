import shlex
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import TOOLS
from dmcrypt_inline.common.run import CommandError, run, stop_all


def test_output_is_returned_and_both_streams_are_logged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    script = 'cat; echo "$WORD $0"; sleep 0.1; echo err >&2'
    done = run(["sh", "-c", script, "$HOME; *"], log=log, timeout=10, stdin=b"in ", env={"WORD": "env"})
    output = "in env $HOME; *\n"
    assert (done.returncode, done.output, done.transcript) == (0, output, f"{output}err\n")
    assert log.read_text() == f"earlier\n$ sh -c '{script}' '$HOME; *'\n{output}err\n"


@pytest.mark.parametrize(
    ("argv", "status", "quoted", "left_out"),
    [
        (["sh", "-c", "echo out; echo err >&2; exit 1"], 1, {"out", "err"}, set()),
        (["sh", "-c", "seq 100; exit 3"], 3, {"81", "100"}, {"80"}),
        (
            ["sh", "-c", "seq 100; echo dm-crypt.c:7:3: error: none; echo oops; seq 200 300; exit 2"],
            *(2, {"dm-crypt.c:7:3: error: none", "oops", "200"}, {"100", "300"}),
        ),
        (["no-such-program"], -1, set(), set()),
    ],
)
def test_an_error_quotes_the_first_error_or_the_last_lines(
    tmp_path: Path, argv: list[str], status: int, quoted: set[str], left_out: set[str]
) -> None:
    log = tmp_path / "log"
    with pytest.raises(CommandError) as caught:
        run(argv, log=log, timeout=10)
    assert caught.value.completed.returncode == status
    text = str(caught.value)
    lines = {line.strip() for line in text.splitlines()}
    assert lines >= quoted
    assert not lines & left_out
    assert shlex.join(argv) in text
    assert str(log) in text


def test_what_stays_in_the_background_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.common.run.GRACE", 0.2)
    begin = time.monotonic()
    assert run(["sh", "-c", "sleep 20 & echo done"], log=tmp_path / "log", timeout=10).output == "done\n"
    assert time.monotonic() - begin < 10


def test_all_that_runs_can_be_stopped_from_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.common.run._stopping", threading.Event())
    begin = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(run, ["sleep", "60"], log=tmp_path / "log", timeout=60)
        while "$ sleep" not in ((tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""):
            time.sleep(0.01)
        time.sleep(0.2)
        stop_all()
        with pytest.raises(UserError, match="interrupted"):
            sleeping.result()
    assert time.monotonic() - begin < 20
    with pytest.raises(UserError, match="interrupted"):
        run(["true"], log=tmp_path / "log", timeout=10)


@pytest.mark.parametrize(
    ("on_term", "grace", "written"),
    [("", 0.2, "up\n"), ("echo tidied; exit 1", 30.0, "up\ntidied\n")],  # the first one ignores SIGTERM
)
def test_a_program_may_clean_up_before_the_time_limit_kills_it_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_term: str, grace: float, written: str
) -> None:
    monkeypatch.setattr("dmcrypt_inline.common.run.GRACE", grace)
    pidfile, begin = tmp_path / "pid", time.monotonic()
    script = f"trap '{on_term}' TERM; echo up; sleep 60 & echo $! >{pidfile}; wait"
    with pytest.raises(CommandError, match="did not end within 1 s") as caught:
        run(["sh", "-c", script], log=tmp_path / "log", timeout=1)
    assert time.monotonic() - begin < 10
    assert caught.value.completed.output == written
    assert ends(int(pidfile.read_text()))


def test_an_interrupt_at_the_start_of_a_program_ends_the_program(tmp_path: Path) -> None:
    script = f"""if True:
        import os, signal, subprocess, sys, time
        from pathlib import Path
        from dmcrypt_inline.commands import cli
        from dmcrypt_inline.common.run import run

        signal.signal(signal.SIGINT, cli._interrupt)
        popen = subprocess.Popen

        def interrupted(*args, **options):
            process = popen(*args, **options)
            print(process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            return process

        subprocess.Popen = interrupted
        run(["sleep", "60"], log=Path({str(tmp_path / "log")!r}), timeout=60)
    """
    done = subprocess.run([sys.executable, "-c", script], cwd=TOOLS, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert ends(int(done.stdout))


def ends(pid: int) -> bool:
    """True when the process ends within 10 s. A killed one closes its files first; a zombie has ended."""
    for _ in range(100):
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False
