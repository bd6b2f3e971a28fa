"""tools/dmcrypt-inline: which Python it runs on."""

from __future__ import annotations

import ast
import subprocess
import sys

from dmcrypt_inline.common.paths import REPO

ENTRY = REPO / "tools" / "dmcrypt-inline"
AS_ANOTHER = "import runpy, sys; sys.version_info = {version}; runpy.run_path({path!r}, run_name='__main__')"


def test_an_older_python_is_told_which_one_is_needed() -> None:
    program = AS_ANOTHER.format(version=(3, 10), path=str(ENTRY))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "3.11" in ended.stderr
    ast.parse(ENTRY.read_text(), feature_version=(3, 7))  # it can read that far
