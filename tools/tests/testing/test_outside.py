"""The comparison of other projects' tests, and what ends a guest."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from guests import PROGRAMS, make_machine, user_mode
from small import write_files

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests.machine import Machine
from dmcrypt_inline.kernels.build import Kernel
from dmcrypt_inline.testing.outside import FAIL, PASS, SKIP, Found, compare, compared, in_mode, read, wanted_tests
from dmcrypt_inline.testing.suites import Suite

SLEEPS = "BUG: sleeping function called from invalid context at block/blk-core.c:823"
ON_DEVICE = "test_device() {\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    names = {"block/003": ON_DEVICE, "block/004": f"CAN_BE_ZONED=1\n{ON_DEVICE}", "block/006": "test() {\n"}
    names |= {"block/036": ON_DEVICE, "dm/003": "setup_test_device() {\n", "zbd/001": f"CAN_BE_ZONED=1\n{ON_DEVICE}"}
    names |= {"zbd/011": "_have_driver dm-crypt\n", "block/012": ON_DEVICE, "block/012.out": "", "scsi/001": ON_DEVICE}
    return write_files(tmp_path / "blktests", {f"tests/{name}": text for name, text in names.items()})


@pytest.mark.parametrize(
    ("base", "series", "failed"),
    [
        (Found(PASS, {}), Found(PASS, {}), 0),
        (Found(PASS, {}), Found(FAIL, {}), 1),
        (Found(PASS, {}), Found(SKIP, {}), 1),
        (Found(SKIP, {}), Found(FAIL, {}), 1),
        (Found(SKIP, {}), Found(PASS, {}), 0),
        (Found(FAIL, {}), Found(FAIL, {}), 0),
        (Found(FAIL, {"bug": SLEEPS}), Found(PASS, {}), 0),
        (Found(FAIL, {"bug": "BUG: 1"}), Found(FAIL, {"bug": "BUG: 2"}), 0),
        (Found(FAIL, {"bug": "BUG: 1"}), Found(FAIL, {"bug": "BUG: 1", "KASAN": "BUG: KASAN"}), 1),
        (Found(FAIL, {}), Found(FAIL, {"bug": SLEEPS}), 1),
    ],
)
def test_what_only_the_queue_does_fails(base: Found, series: Found, failed: int) -> None:
    outcome = compared("mode", {"a/1": base}, {"a/1": series})
    assert outcome.counts == Counts(series.verdict == PASS, failed, not failed and series.verdict != PASS)
    assert outcome.details.startswith("not ok a/1: ") == bool(failed)
    assert bool(outcome.details) == (base != series or series.verdict == FAIL)


def test_a_test_that_a_killed_guest_started_runs_again() -> None:
    warned = f"[ 1.0] boots\n[ 2.0] guest test: block/004\n[ 3.0] {SLEEPS}\n[ 4.0] guest test: block/005\n[ 5.0] x\n"
    sleeps = Found(FAIL, {"sleeping in atomic context": SLEEPS})
    assert read("block/004 pass 3\n", warned) == {"block/004": sleeps}
    assert read("block/004 pass 3\nblock/005 skip 3\n", warned)["block/005"] == Found(SKIP, {})
    assert read("", warned.replace(SLEEPS, "quiet"))["block/005"] == Found(FAIL, {})
    io_error = "guest test: dm/002\nBuffer I/O error on dev dm-1\n"
    assert read("# dm/002 fail 1 in a text\ndm/002 pass 3\n", io_error) == {"dm/002": Found(PASS, {})}


def test_the_modes_have_their_tests(checkout: Path) -> None:
    assert in_mode("blktests/both", checkout) == ["block/003", "block/004", "block/012"]
    assert in_mode("blktests/default", checkout) == ["block/003", "block/004", "block/012", "zbd/011"]
    assert in_mode("blktests/zoned", checkout) == ["block/004", "zbd/001"]
    with pytest.raises(UserError, match="is no checkout of xfstests"):
        in_mode("xfstests/ext4", checkout)


def test_both_drivers_run_all_tests(machine: Machine, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = Suite(machine, "outside")
    [(mode, tests)] = wanted_tests({"blktests": checkout}, ["blktests/both"]).items()
    assert suite.run([partial(compare, suite, checkout, mode, tests)]) == Counts(2, 1, 0)
    said = capsys.readouterr().out
    assert f"    block/004: fail ({SLEEPS}) with the base, pass with the queue\n" in said
    assert "    not ok block/003: pass with the base, fail with the queue\n" in said


def test_words_choose_tests_and_modes(checkout: Path, tmp_path: Path) -> None:
    both = {"blktests": checkout, "xfstests": write_files(tmp_path / "xfstests", {"tests/generic/001": ""})}
    assert wanted_tests(both, ["xfstests/xfs"]) == {"xfstests/xfs": ["generic/001"]}
    assert list(wanted_tests(both, ["zbd/001"])) == ["blktests/zoned"]
    with pytest.raises(UserError, match="names no test"):
        wanted_tests(both, ["block/099"])


@pytest.fixture
def machine(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = make_machine(kernel, tmp_path, monkeypatch, "")
    return replace(made, kernel=user_mode(made.kernel, (PROGRAMS / "outside.sh").read_text()))
