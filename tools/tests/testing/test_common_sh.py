"""selftests/dm-crypt/common.sh: test cases that fail, skip, stop, leak, or cannot be set up."""

import subprocess
from pathlib import Path

import pytest

from dmcrypt_inline.testing.ktap import parse
from dmcrypt_inline.trees.selftests import SELFTESTS

# Without devices and a kernel log.
TEST = f""". {SELFTESTS / "common.sh"}
mark_log() {{ mark=here; }}
no_warnings() {{ :; }}
passes() {{ want sum 2 $((1 + 1)); }}
fails() {{ want sum $'1\\n1' 2; }}
skips() {{ skip "no cipher"; }}
skips_after_a_failure() {{ want sum 1 2; skip "no cipher"; }}
stops() {{ defer true; fail "refused"; }}
leaks() {{ defer false; }}
leaks_and_skips() {{ defer false; skip "no cipher"; }}
is_broken() {{ broken "no disk"; }}
"""


@pytest.mark.parametrize(
    ("tests", "verdicts"),
    [
        ("passes skips fails passes", "pass skip fail pass"),
        ("skips_after_a_failure stops leaks leaks_and_skips", "fail fail fail fail"),
        ("skips skips", "skip skip"),
        ("passes is_broken passes", "pass"),
    ],
)
def test_a_skip_hides_no_failure(tmp_path: Path, tests: str, verdicts: str) -> None:
    (tmp_path / "test.sh").write_text(f"{TEST}run_cases {tests}\n")
    ran = subprocess.run(["bash", tmp_path / "test.sh"], check=False, capture_output=True, text=True)
    report = parse(ran.stdout)
    assert [("skip" if it.skip else "pass") if it.ok else "fail" for it in report.cases] == verdicts.split()
    assert ran.returncode == report.exit_status
    assert bool(report.problems) == ("is_broken" in tests)
    assert all(line.startswith(("TAP", "1..", "ok", "not ok", "# ", "Bail out!")) for line in ran.stdout.splitlines())


@pytest.mark.parametrize(("word", "status"), [("skip", 4), ("broken", 1)])
def test_a_version_comes_before_all_cases(tmp_path: Path, word: str, status: int) -> None:
    (tmp_path / "test.sh").write_text(f'{TEST}{word} "no root"\n')
    ran = subprocess.run(["bash", tmp_path / "test.sh"], check=False, capture_output=True, text=True)
    assert ran.stdout.splitlines()[0] == "TAP version 13"
    assert "no root" in ran.stdout.splitlines()[-1]
    assert ran.returncode == status
