import os
import pty
import subprocess
import sys

from dmcrypt_inline.common.paths import TOOLS

PARALLEL = """
import threading, time
from dmcrypt_inline.common.progress import say, step

def work(number):
    with step(f"work {number}"):
        time.sleep(1.5)
        say(f"ok {number}")
        time.sleep(1.5)

threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_lines_of_parallel_steps_do_not_overwrite_each_other() -> None:
    terminal, inside = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", PARALLEL], cwd=TOOLS, stdout=inside) as process:
        os.close(inside)
        written = b""
        try:
            while fresh := os.read(terminal, 4096):
                written += fresh
        except OSError:  # the program has ended
            pass
        process.wait()
    os.close(terminal)
    # What remains in each line when the terminal has obeyed "erase this line".
    lines = [line.rstrip("\r").rpartition("\r\x1b[K")[2] for line in written.decode().split("\n")]
    shown = sorted(line.partition(" [")[0] for line in lines if line)
    assert shown == ["done work 1", "done work 2", "ok 1", "ok 2"]
