"""checks/linux.py: the tree's own Makefiles install every selftest, or the check names the missing file."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import committed, make_queue

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Failed, Queue
from dmcrypt_inline.trees import selftests

# The rules of kselftest, for one directory.
INSTALLS = """\
install:
	mkdir -p $(INSTALL_PATH)/dm-crypt
	cp $(filter-out {left_out} dm-crypt/Makefile,$(wildcard dm-crypt/*)) $(INSTALL_PATH)/dm-crypt
	printf 'dm-crypt:%s\\n' {run} >$(INSTALL_PATH)/kselftest-list.txt
"""
FILES = {"Makefile": 0o644, "ktap.sh": 0o644, "one.sh": 0o755, "two.sh": 0o755, "by_hand.sh": 0o755}


@pytest.mark.parametrize(
    ("left_out", "run", "named"),
    [
        ("", "one.sh two.sh", []),
        ("dm-crypt/ktap.sh", "one.sh two.sh", ["ktap.sh"]),
        ("dm-crypt/by_hand.sh", "one.sh two.sh", ["by_hand.sh"]),
        ("", "one.sh", ["two.sh"]),
    ],
)
def test_a_missing_selftest_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str, run: str, named: list[str]
) -> None:
    monkeypatch.setattr(selftests, "SELFTESTS", tmp_path / "dm-crypt")
    (tmp_path / "dm-crypt").mkdir()
    for name, mode in FILES.items():
        (tmp_path / "dm-crypt" / name).write_text("TEST_PROGS_EXTENDED := by_hand.sh\n")
        (tmp_path / "dm-crypt" / name).chmod(mode)
    queue = make_queue(tmp_path)
    texts = {f"tools/testing/selftests/dm-crypt/{name}": "TEST_PROGS_EXTENDED := by_hand.sh\n" for name in FILES}
    texts["tools/testing/selftests/Makefile"] = INSTALLS.format(left_out=left_out, run=run)
    texts |= {"tools/scripts/utilities.mak": "\n", "scripts/subarch.include": "\n"}
    for path, text in texts.items():
        queue = committed(queue, path, text)
    assert findings(queue) == named


def findings(queue: Queue) -> list[str]:
    """The first words of the check's findings."""
    try:
        linux._kselftest(queue)
    except Failed as failed:
        return [line.split()[0] for line in str(failed).splitlines()]
    return []
