"""tools/dmcrypt-inline: which Python it runs on."""

from __future__ import annotations

import ast
import subprocess
import sys

from dmcrypt_inline.common.paths import REPO

ENTRY = REPO / "tools" / "dmcrypt-inline"
AS_ANOTHER = "import runpy, sys; sys.version_info = {version}; runpy.run_path({path!r}, run_name='__main__')"


def start(version: tuple[int, int]) -> subprocess.CompletedProcess[str]:
    program = AS_ANOTHER.format(version=version, path=str(ENTRY))
    return subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False)


def test_an_older_python_is_told_which_one_is_needed() -> None:
    ended = start((3, 10))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("dmcrypt-inline: needs Python 3.11 or newer")
    assert "needs Python" not in start((3, 11)).stderr
    ast.parse(ENTRY.read_text(), feature_version=(3, 7))  # it can read that far
