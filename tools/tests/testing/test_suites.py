"""suites.py and known_failures.py: which tests run where, and what is told of them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from guests import CRYPTSETUP, found_in, make_guests, module

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests.kernel_log import find_warnings
from dmcrypt_inline.guests.machine import Machine
from dmcrypt_inline.kernels.build import USER_MODE, Kernel, Module
from dmcrypt_inline.testing import guest_tests, mutants, suites
from dmcrypt_inline.testing.known_failures import failures_of, judge
from dmcrypt_inline.testing.ktap import parse
from dmcrypt_inline.trees.series import Tree
from dmcrypt_inline.trees.targets import get_target


def machine(kernel: Kernel, place: Path) -> Machine:
    """A machine with modules that no stand-in loads."""
    modules = {name: module(place, name) for name in ("base", "series")}
    return Machine(Tree(get_target("linux-7.3-fixes"), place, "", "", (), "", "a test"), kernel, modules, None)


def test_the_base_must_fail_each_test_that_is_said_to_find_it_wrong(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = found_in(make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n"), monkeypatch)
    suites.test_fixes(machine(kernel, tmp_path), ["arguments"])
    tried, *results = closed
    result = next(each for each in results if each.name == "functional/arguments")
    assert {each.name for each in results} == {"functional/arguments", "dm-crypt/table", "dm-crypt/regressions"}
    assert tried == mutants.MutantResult("base", "arguments", False, "nothing")
    assert isinstance(result, guest_tests.TestResult)
    assert (result.name, result.counts.passed) == ("functional/arguments", 1)


def test_a_commit_may_fail_what_the_base_fails_until_one_mends_it(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n")
    closed = found_in(guests, monkeypatch)
    wrong = {"base": "abz", "patch-01": "abcz", "patch-02": "bz", "patch-03": "az", "series": "bz"}  # who fails which

    def run(guests: guest_tests.Guests, module: Module, tests: list[str], _seconds: float) -> list[object]:
        assert guests.any_driver
        said = {test: f"1..1\n{'not ' * (test in wrong[module.name])}ok 1 it_holds\n" for test in tests}
        reports = {test: parse(text) for test, text in said.items()}
        return [guest_tests.TestResult(test, each, each.exit_status, ()) for test, each in reports.items()]

    monkeypatch.setattr(guest_tests.Guests, "run", run)
    monkeypatch.setattr(guest_tests.Guests, "boot", lambda *_: (1, ()))
    monkeypatch.setattr(suites, "kselftests", lambda: ["a", "b", "c", "z"])
    modules = {name: module(tmp_path, name) for name in wrong}
    tree = Tree(get_target("linux-5.8"), tmp_path, "", "", (), "", "")
    suites.bisect_check(Machine(tree, kernel, modules, None))
    found = {each.name: each.counts for each in closed if isinstance(each, guest_tests.TestResult)}
    assert len(found) == 4 * 4
    failed = [name for name, counts in found.items() if counts == Counts(0, 1, 0)]
    assert failed == ["patch-01: c", "patch-03: a", "series: b", "series: z"]
    skipped = [name for name, counts in found.items() if counts == Counts(0, 0, 1)]
    assert skipped == ["patch-01: a", "patch-01: b", "patch-01: z", "patch-02: b", "patch-02: z", "patch-03: z"]
    assert [line for line in capsys.readouterr().out.splitlines() if " on the base" in line or " mends " in line] == [
        *("patch-01: a fails as on the base", "patch-01: b fails as on the base", "patch-01: z fails as on the base"),
        *("patch-02 mends a", "patch-02: b fails as on the base", "patch-02: z fails as on the base"),
        *("patch-03 mends b", "patch-03: z fails as on the base"),
    ]


@pytest.mark.parametrize("form", ["quick", "full"])
def test_the_selftests_are_divided_among_guests(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    guests = replace(make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n"), quick=form == "quick")
    every = guest_tests.kselftests()
    jobs = suites._selftests(guests, module(tmp_path, "series"), every)
    boots = [guests.boot(test) for test in every]
    assert len(jobs) == sum(-(-boots.count(boot) // suites.SHARE[form]) for boot in set(boots))
    found = suites._found(jobs)
    assert [each.name for each in found] == every
    assert all(isinstance(each, guest_tests.TestResult) and each.counts.passed == 1 for each in found)
    assert {path.name for path in guests.out.iterdir()} >= {f"series-{number}" for number in range(len(jobs))}
    assert "    table: # dm-crypt/table" in capsys.readouterr().out.splitlines()
    native = replace(guests, kernel=replace(kernel, arch=USER_MODE))  # each has a boot of its own
    assert len(suites._selftests(native, module(tmp_path, "series"), every)) == len(every)


def test_an_error_of_one_job_ends_all() -> None:
    begun = []

    def refuses() -> list[suites.Outcome]:
        raise UserError("no guest")

    def runs() -> list[suites.Outcome]:
        begun.append(1)
        time.sleep(0.001)
        return []

    with pytest.raises(UserError, match="no guest"):
        suites._found([refuses, *([runs] * 1000)])
    assert len(begun) < 1000


def result(text: str, status: int | None = 1, warning: str = "") -> guest_tests.TestResult:
    """What a test said, how it ended, what the kernel said."""
    return guest_tests.TestResult("dm-crypt/x", parse(text), status, find_warnings(warning))


def test_a_commit_may_fail_the_claims_that_the_base_fails_alone() -> None:
    known = failures_of(result("1..3\nnot ok 1 a\nok 2 b\nok 3 c\n"))
    found, left = judge(known, result("1..3\nnot ok 1 a\nnot ok 2 b\nok 3 c\n"))
    assert found.counts == Counts(1, 1, 1)
    found, left = judge(left, result("1..3\nok 1 a\nok 2 b\nok 3 c\n", 0))
    assert (found.counts, bool(left)) == (Counts(3, 0, 0), False)
    assert judge(left, result("1..3\nnot ok 1 a\nok 2 b\nok 3 c\n"))[0].counts == Counts(2, 1, 0)


def test_what_a_guest_did_not_come_to_may_fail_until_it_passed() -> None:
    known = failures_of(result("1..3\nok 1 a\n", None))
    found, left = judge(known, result("1..3\nok 1 a\nok 2 b\nnot ok 3 c\n"))
    assert found.counts == Counts(2, 0, 1)
    for again, failed in (("not ok 1 a\nok 2 b", 1), ("ok 1 a\nnot ok 2 b", 1), ("ok 1 a\nok 2 b", 0)):
        assert judge(left, result(f"1..3\n{again}\nnot ok 3 c\n"))[0].counts.failed == failed
    assert not judge(left, result("1..3\nok 1 a\nok 2 b\nok 3 c\n", 0))[1]


def test_a_commit_that_dies_as_the_base_did_mends_nothing() -> None:
    known = failures_of(result("1..3\nok 1 a\nnot ok 2 b\n", None))
    found, left = judge(known, result("1..3\nok 1 a\n", None))
    assert found.counts == Counts(1, 0, 1)
    assert left.covers("b")
    assert left.covers("c")
    assert not left.covers("a")
    assert judge(failures_of(result("1..1\nok 1 a\n", 0)), result("", None))[0].counts.failed


def test_a_warning_may_come_until_it_did_not() -> None:
    passes = "1..1\nok 1 a\n"
    known = failures_of(result(passes, 0, "BUG: x"))
    found, left = judge(known, result(passes, 0, "BUG: x"))
    assert found.counts == Counts(1, 0, 1)
    found, left = judge(left, result(passes, 0))
    assert (found.counts, bool(left)) == (Counts(1, 0, 0), False)
    assert judge(left, result(passes, 0, "BUG: x"))[0].counts.failed == 1


def test_a_test_that_had_nothing_to_test_on_the_base_has_no_known_failures() -> None:
    known = failures_of(result("1..0 # SKIP no flags\n", 4))
    assert judge(known, result("1..1\nnot ok 1 a\n"))[0].counts == Counts(0, 1, 0)


@pytest.mark.parametrize(
    ("lacks", "text", "failed"),
    [
        (["x:a"], "not ok 1 a\nok 2 b\n", 0),
        (["x:a"], "ok 1 a\nnot ok 2 b\n", 1),
        (["x:a"], "ok 1 a\nok 2 b # SKIP c\n", 1),
        (["x"], "ok 1 a\nok 2 b # SKIP c\n", 0),
        (["other:a"], "not ok 1 a\nok 2 b\n", 1),
    ],
)
def test_what_a_kernel_lacks_may_fail_and_nothing_else(lacks: list[str], text: str, failed: int) -> None:
    found = suites._without(lacks, result(f"1..2\n{text}", 1 if "not ok" in text else 0))
    assert found.counts.failed == failed


def test_a_test_of_cryptsetup_must_run(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..0 # SKIP no mood\n", status=4)
    ran = suites._found(suites._cryptsetup(guests, machine(kernel, tmp_path), suites.cryptsetup_tests()))
    assert [each.name for each in ran] == ["cryptsetup/options", "cryptsetup_on_base/options"]
    assert all(isinstance(each, guest_tests.TestResult) and each.counts == Counts(0, 1, 1) for each in ran)
    assert [path.name for path in sorted(guests.out.iterdir())] == ["cryptsetup-base", "cryptsetup-series"]


def test_every_selftest_and_test_of_cryptsetup_is_run(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n")
    closed = found_in(guests, monkeypatch)
    suites.test(machine(kernel, tmp_path), [], CRYPTSETUP)
    assert {each.name for each in closed} == {*suites.cryptsetup_tests(), *guest_tests.kselftests()}
    closed.clear()
    suites.test(machine(kernel, tmp_path), [], None)
    assert {each.name for each in closed} == set(guest_tests.kselftests())
