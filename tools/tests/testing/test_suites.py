"""suites.py, results.py and known_failures.py: which tests run where, their verdicts, and what a run stores."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from guests import CRYPTSETUP, make_machine, module, run_test, stand_in

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import build_dir
from dmcrypt_inline.guests.kernel_log import find_warnings
from dmcrypt_inline.guests.machine import Machine
from dmcrypt_inline.kernels.build import Kernel, Module
from dmcrypt_inline.testing import files, guest_tests, results, suites
from dmcrypt_inline.testing.known_failures import KnownFailures
from dmcrypt_inline.testing.ktap import parse
from dmcrypt_inline.testing.results import NOT_OK, OK, earlier_outcomes, failed_last

PASSES = r"1..1\nok 1 a\n"


@pytest.fixture
def machine(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose tests pass."""
    return make_machine(kernel, tmp_path, monkeypatch, PASSES)


def stored(stage: str) -> dict[str, Any]:
    """The results file of the newest run of a stage."""
    content: dict[str, Any] = json.loads((build_dir("linux-5.8") / stage / "results.json").read_text())
    return content


def verdicts(stage: str) -> dict[str, str]:
    """The verdicts in the results file, by the names of the results."""
    return {each["name"]: each["verdict"] for each in stored(stage)["results"]}


def test_two_runs_at_the_same_time_get_their_own_verdicts(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_if_bad = 'sleep 0.5; if [ -e "$SHARE/input/modules/bad.ko" ]; then word="not ok"; number=1; fi; '
    stand_in(monkeypatch, tmp_path, fails_if_bad + run_test(r"1..1\n${word:-ok} 1 a\n", "${number:-0}"))

    def run(name: str) -> int:
        both = replace(machine, modules={"given": replace(module(tmp_path, name), name="given")})
        return suites.selftest(both, True, "given", ["dm-crypt/table"]).failed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, ["bad", "good", "bad", "good"])) == [1, 0, 1, 0]


def test_a_run_stores_its_results_and_the_next_one_compares(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = ["dm-crypt/table", "functional/io"]
    assert suites.selftest(machine, True, "series", tests) == Counts(2, 0, 0)
    settings = stored("selftest")["settings"]
    earlier = earlier_outcomes(build_dir("linux-5.8"), "selftest", settings)
    assert {name: verdict for name, (verdict, _) in earlier.items()} == dict.fromkeys(tests, OK)
    with pytest.raises(UserError):
        failed_last(build_dir("linux-5.8"), "selftest", tests)
    stand_in(monkeypatch, tmp_path, run_test(r"1..1\nnot ok 1 a\n", 1))
    assert suites.selftest(machine, True, "series", tests[:1]) == Counts(0, 1, 0)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not ok dm-crypt/table")]
    assert "(was ok, " in line
    assert failed_last(build_dir("linux-5.8"), "selftest", tests) == tests[:1]
    assert earlier_outcomes(build_dir("linux-5.8"), "selftest", settings).keys() == set(tests)
    assert not earlier_outcomes(build_dir("linux-5.8"), "selftest", {**settings, "variant": "base"})


def test_a_part_that_cannot_run_fails_and_stops_no_other() -> None:
    def refuses() -> Counts:
        raise UserError("no network")

    found = results.run_parts({"one": refuses, "two": lambda: Counts(1, 0, 0)}, {})
    assert [(each.name, each.verdict) for each in found] == [("one", NOT_OK), ("two", OK)]


def test_the_base_must_fail_each_test_that_finds_a_defect(machine: Machine) -> None:
    suites.test_fixes(machine, ["arguments"])
    assert verdicts("test") == {
        "arguments catches base": NOT_OK,
        "functional/arguments": OK,
        "dm-crypt/table": OK,
        "dm-crypt/regressions": OK,
    }


def test_a_commit_may_fail_as_the_base_until_a_commit_fixes_it(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = {"base": "abz", "patch-01": "abcz", "patch-02": "bz", "patch-03": "az", "series": "bz"}

    def run(guests: guest_tests.Guests, module: Module, test: str, _seconds: float) -> guest_tests.TestResult:
        assert guests.any_driver
        report = parse(f"1..1\n{'not ' * (test in failing[module.name])}ok 1 it_holds\n")
        return guest_tests.TestResult(test, report, report.exit_status, ())

    monkeypatch.setattr(guest_tests.Guests, "run", run)
    monkeypatch.setattr(suites, "kselftests", lambda: ["a", "b", "c", "z"])
    suites.bisect_check(replace(machine, modules={name: module(tmp_path, name) for name in failing}))
    found = verdicts("bisect")
    assert len(found) == 4 * 4
    assert [name for name in found if found[name] == NOT_OK] == ["patch-01: c", "patch-03: a", "series: b", "series: z"]
    assert [name for name in found if found[name] == "skip"] == [
        *("patch-01: a", "patch-01: b", "patch-01: z", "patch-02: b", "patch-02: z", "patch-03: z")
    ]


def result(text: str, status: int | None = 1, warning: str = "") -> guest_tests.TestResult:
    """The result of a test with this output, exit status and kernel log."""
    return guest_tests.TestResult("dm-crypt/x", parse(text), status, find_warnings(warning))


def known_after(base: guest_tests.TestResult) -> KnownFailures:
    """The known failures after this result on the base."""
    known = KnownFailures()
    known.add_base(base)
    return known


def test_a_commit_may_fail_the_cases_that_the_base_fails_and_no_others() -> None:
    known = known_after(result("1..3\nnot ok 1 a\nok 2 b\nok 3 c\n"))
    assert known.excuse(result("1..3\nnot ok 1 a\nnot ok 2 b\nok 3 c\n")).counts == Counts(1, 1, 1)
    assert known.excuse(result("1..3\nok 1 a\nok 2 b\nok 3 c\n", 0)).counts == Counts(3, 0, 0)
    assert not known.failures
    assert known.excuse(result("1..3\nnot ok 1 a\nok 2 b\nok 3 c\n")).counts == Counts(2, 1, 0)


def test_cases_that_the_base_did_not_reach_may_fail_until_they_pass() -> None:
    known = known_after(result("1..3\nok 1 a\n", None))
    assert known.excuse(result("1..3\nok 1 a\nok 2 b\nnot ok 3 c\n")).counts == Counts(2, 0, 1)
    for again, failed in (("not ok 1 a\nok 2 b", 1), ("ok 1 a\nnot ok 2 b", 1), ("ok 1 a\nok 2 b", 0)):
        assert known.excuse(result(f"1..3\n{again}\nnot ok 3 c\n")).counts.failed == failed


def test_a_commit_that_dies_as_the_base_did_fixes_nothing() -> None:
    known = known_after(result("1..3\nok 1 a\nnot ok 2 b\n", None))
    assert known.excuse(result("1..3\nok 1 a\n", None)).counts == Counts(1, 0, 1)
    assert [known.known("dm-crypt/x", case) for case in "abc"] == [False, True, True]
    assert known_after(result("1..1\nok 1 a\n", 0)).excuse(result("", None)).counts.failed


def test_a_kernel_warning_of_the_base_may_come_until_a_commit_fixes_it() -> None:
    known = known_after(result(PASSES.replace(r"\n", "\n"), 0, "BUG: x"))
    assert known.excuse(result("1..1\nok 1 a\n", 0, "BUG: x")).counts == Counts(1, 0, 1)
    assert known.excuse(result("1..1\nok 1 a\n", 0)).counts == Counts(1, 0, 0)
    assert known.excuse(result("1..1\nok 1 a\n", 0, "BUG: x")).counts.failed == 1


def test_a_skip_on_the_base_is_no_known_failure() -> None:
    known = known_after(result("1..0 # SKIP no flags\n", 4))
    assert known.excuse(result("1..1\nnot ok 1 a\n")).counts == Counts(0, 1, 0)


@pytest.mark.parametrize(
    ("lacking", "text", "failed"),
    [
        (["x:a"], "not ok 1 a\nok 2 b\n", 0),
        (["x:a"], "ok 1 a\nnot ok 2 b\n", 1),
        (["x:a"], "ok 1 a\nok 2 b # SKIP c\n", 1),
        (["x"], "ok 1 a\nok 2 b # SKIP c\n", 0),
        (["other:a"], "not ok 1 a\nok 2 b\n", 1),
    ],
)
def test_only_what_a_kernel_lacks_may_fail(lacking: list[str], text: str, failed: int) -> None:
    found = suites.excuse_lacking(lacking, result(f"1..2\n{text}", 1 if "not ok" in text else 0))
    assert found.counts.failed == failed


def test_a_test_of_cryptsetup_must_not_skip(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, run_test(r"1..0 # SKIP no mood\n", 4))
    assert suites.of_cryptsetup(machine, CRYPTSETUP, True, files.cryptsetup_tests()) == Counts(0, 2, 2)
    assert verdicts("cryptsetup") == {"cryptsetup/options": NOT_OK, "cryptsetup_on_base/options": NOT_OK}


def test_make_test_runs_every_test_that_is_not_excluded(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "_advice", lambda *_: [])
    every = {*files.cryptsetup_tests(), *files.kselftests()}
    suites.test_queue(machine, [], CRYPTSETUP)
    assert verdicts("test").keys() == every
    suites.test_queue(machine, [], None, ["load", "functional/io", "dm-crypt"])
    gone = {"functional/load", "functional/io", "dm-crypt/table", "dm-crypt/regressions"}
    assert verdicts("test").keys() == set(files.kselftests()) - gone
