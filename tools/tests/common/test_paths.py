import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dmcrypt_inline.common import paths
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import TOOLS


def fill(part: Path) -> None:
    (part / "file").write_text("complete")


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(part: Path) -> None:
        fill(part)
        raise UserError("no")

    with pytest.raises(UserError, match="no"):
        paths.publish(tmp_path / "entry", fail, 0, "a test")
    assert [p.name for p in tmp_path.iterdir()] == [".entry.lock"]


def another_run(place: Path, body: str) -> subprocess.Popen[bytes]:
    """Another process that makes the entry; `body` is what it does for that."""
    script = f"""if True:
        import sys, time; sys.path.insert(0, {str(TOOLS)!r})
        from pathlib import Path
        from dmcrypt_inline.common.paths import publish
        from dmcrypt_inline.common.run import run
        place = Path({str(place)!r})
        def make(part):
            (place / "up").touch()
            {body}
        publish(place / "entry", make, 0, "a test")
    """
    process = subprocess.Popen([sys.executable, "-c", script])
    while not (place / "up").exists():
        assert process.poll() is None
        time.sleep(0.01)
    (place / "up").unlink()
    return process


def test_a_killed_run_leaves_no_entry_and_the_next_one_clears_up(tmp_path: Path) -> None:
    with another_run(tmp_path, "(part / 'half').touch(); time.sleep(60)") as process:
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "entry").exists()
    assert len(list(tmp_path.glob(".entry.part-*"))) == 1
    paths.publish(tmp_path / "entry", fill, 0, "a test")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".entry.lock", "entry"]
    assert [p.name for p in (tmp_path / "entry").iterdir()] == ["file"]


def test_a_concurrent_run_waits_and_takes_what_the_first_made(tmp_path: Path) -> None:
    with another_run(tmp_path, "time.sleep(1); (part / 'file').write_text('first')"):
        paths.publish(tmp_path / "entry", fill, 0, "a test")
    assert (tmp_path / "entry" / "file").read_text() == "first"


def test_a_program_that_outlives_a_killed_run_keeps_its_lock(tmp_path: Path) -> None:
    wait = f"touch {tmp_path}/began; sleep 1; touch {tmp_path}/down"
    with another_run(tmp_path, f"run(['sh', '-c', '{wait}'], log=place / 'log', timeout=60)") as process:
        while not (tmp_path / "began").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "down").exists()
    paths.publish(tmp_path / "entry", fill, 0, "a test")
    assert (tmp_path / "down").exists()


def test_too_little_space_is_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not enough disk space for a test: .* needed") as caught:
        paths.publish(tmp_path / "entry", lambda _: pytest.fail("started"), 1 << 60, "a test")
    assert str(tmp_path) in str(caught.value)


def test_a_program_that_another_thread_started_does_not_keep_the_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with paths.locked(tmp_path / "entry"):
        other = subprocess.Popen(["sleep", "60"], close_fds=False)  # as run() starts what it runs
    try:
        with paths.locked(tmp_path / "entry"):
            assert "waiting for" not in capsys.readouterr().out
    finally:
        other.kill()
        other.wait()
