import sys
from io import StringIO

import pytest

from dmcrypt_inline.common.progress import say, step


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_of_parallel_steps_do_not_overwrite_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with step("work 1"), step("work 2"):
        say("ok 1")
        assert "work 1; " in terminal.getvalue()
        say("ok 2")
    # What remains in each line when the terminal has obeyed "erase this line".
    lines = [line.rpartition("\r\x1b[K")[2].partition(" [")[0] for line in terminal.getvalue().split("\n")]
    assert lines == ["ok 1", "ok 2", "done work 2", "done work 1", ""]
