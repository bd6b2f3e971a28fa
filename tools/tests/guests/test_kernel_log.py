import json
from pathlib import Path

import pytest

from dmcrypt_inline.guests.kernel_log import find_warnings

CONSOLES = sorted((Path(__file__).parent / "consoles").glob("*.txt"))


@pytest.mark.parametrize("console", CONSOLES, ids=lambda path: path.stem)
def test_finds_the_warnings_of_a_console(console: Path) -> None:
    found = [{"line": c.line, "kind": c.kind, "first": c.first} for c in find_warnings(console.read_text())]
    assert found == json.loads(console.with_suffix(".json").read_text())


def test_expected_lines_are_no_warnings() -> None:
    log = "[    1.0] Buffer I/O error on dev dm-0, logical block 0\n[    1.1] BUG: KASAN: use-after-free in f+0x1/0x2\n"
    assert [c.kind for c in find_warnings(log, expected=(r"Buffer I/O error on dev dm-\d+",))] == ["KASAN"]
