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
from dmcrypt_inline.testing.ktap import parse
from dmcrypt_inline.testing.mutants import Mutant
from dmcrypt_inline.testing.results import NOT_OK, OK, earlier_outcomes

PASSES = r"1..1\nok 1 a\n"


@pytest.fixture
def machine(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return make_machine(kernel, tmp_path, monkeypatch, PASSES)


def stored(stage: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((build_dir("linux-5.8") / stage / "results.json").read_text())
    return content


def verdicts(stage: str) -> dict[str, str]:
    return {each["name"]: each["verdict"] for each in stored(stage)["results"]}


def selftest(machine: Machine, tests: list[str], variant: str = "series") -> Counts:
    suite = suites.Suite(machine, "selftest", variant=variant)
    return suite.run(suite.kselftests(tests, variant))


def test_two_runs_at_the_same_time_get_their_own_verdicts(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_if_bad = 'sleep 0.5; if [ -e "$SHARE/input/modules/bad.ko" ]; then word="not ok"; number=1; fi; '
    stand_in(monkeypatch, tmp_path, fails_if_bad + run_test(r"1..1\n${word:-ok} 1 a\n", "${number:-0}"))

    def run(name: str) -> int:
        both = replace(machine, modules={"given": replace(module(tmp_path, name), name="given")})
        return selftest(both, ["dm-crypt/table"], "given").failed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, ["bad", "good", "bad", "good"])) == [1, 0, 1, 0]


def test_a_run_stores_its_results_and_the_next_one_compares(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = ["dm-crypt/table", "functional/io"]
    assert selftest(machine, tests) == Counts(2, 0, 0)
    settings = stored("selftest")["settings"]
    earlier = earlier_outcomes(build_dir("linux-5.8"), "selftest", settings)
    assert {name: verdict for name, (verdict, _) in earlier.items()} == dict.fromkeys(tests, OK)
    stand_in(monkeypatch, tmp_path, run_test(r"1..1\nnot ok 1 a\n", 1))
    assert selftest(machine, tests[:1]) == Counts(0, 1, 0)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not ok dm-crypt/table")]
    assert "(was ok, " in line
    assert earlier_outcomes(build_dir("linux-5.8"), "selftest", settings).keys() == set(tests)
    assert not earlier_outcomes(build_dir("linux-5.8"), "selftest", {**settings, "variant": "base"})


def test_a_part_that_cannot_run_fails_and_stops_no_other() -> None:
    def refuses() -> Counts:
        raise UserError("no network")

    found = results.run_parts({"one": refuses, "two": lambda: Counts(1, 0, 0)}, {})
    assert [(each.name, each.verdict) for each in found] == [("one", NOT_OK), ("two", OK)]


def test_the_base_must_fail_each_test_that_finds_a_defect(machine: Machine, tmp_path: Path) -> None:
    base = Mutant("base", tmp_path, ("functional/arguments",))
    suites.test_queue(machine, ["functional/arguments"], mutants=[base])
    assert verdicts("test") == {"arguments catches base": NOT_OK, "functional/arguments": OK}


def test_a_commit_may_fail_as_the_base_until_a_commit_fixes_it(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = {"base": "abz", "patch-01": "abcz", "patch-02": "bz", "patch-03": "az", "series": "bz"}

    def run(guests: guest_tests.Guests, module: Module, test: str, _seconds: float) -> guest_tests.TestResult:
        assert guests.env["DM_CRYPT_ANY_DRIVER"]
        report = parse(f"1..1\n{'not ' * (test in failing[module.name])}ok 1 it_holds\n")
        return guest_tests.TestResult(test, report, report.exit_status, ())

    monkeypatch.setattr(guest_tests.Guests, "run", run)
    monkeypatch.setattr(suites, "kselftests", lambda: ["a", "b", "c", "z"])
    suites.test_each_commit(replace(machine, modules={name: module(tmp_path, name) for name in failing}))
    found = verdicts("bisect")
    assert len(found) == 4 * 4
    assert [name for name in found if found[name] == NOT_OK] == ["patch-01: c", "patch-03: a", "series: b", "series: z"]
    assert [name for name in found if found[name] == "skip"] == [
        *("patch-01: a", "patch-01: b", "patch-01: z", "patch-02: b", "patch-02: z", "patch-03: z")
    ]


def ran(words: str) -> guest_tests.TestResult:
    """The result of a test: "a" for a case that passed, "-a" that failed, "~a" that was skipped.

    With "skipped" the test skipped them all; with "died" its guest ended before the last case, with "warned" the
    kernel printed a warning.
    """
    cases = [word for word in words.split() if word not in ("died", "skipped", "warned")]
    lines = [
        f"{'not ' * case.startswith('-')}ok {number} {case.strip('-~')}{' # SKIP no disk' * case.startswith('~')}\n"
        for number, case in enumerate(cases, 1)
    ]
    report = parse(f"1..{len(cases) + ('died' in words)}{' # SKIP no flags' * ('skipped' in words)}\n{''.join(lines)}")
    status = None if "died" in words else report.exit_status
    return guest_tests.TestResult("dm-crypt/x", report, status, find_warnings("BUG: x" * ("warned" in words)))


@pytest.mark.parametrize(
    ("base", "commits"),
    [
        # A commit may fail the cases that the base fails until a commit fixes them, and no others.
        ("-a b c", [("-a -b c", (1, 1, 1)), ("a b c", (3, 0, 0)), ("-a b c", (2, 1, 0))]),
        # Cases that the base did not reach may fail until they pass.
        ("a died", [("a b -c", (2, 0, 1)), ("-a b -c", (1, 1, 1)), ("a -b -c", (1, 1, 1)), ("a b -c", (2, 0, 1))]),
        # A commit that dies as the base did fixes nothing.
        ("a -b died", [("a died", (1, 0, 1)), ("a -b -c", (1, 0, 2))]),
        ("a -b died", [("a died", (1, 0, 1)), ("-a died", (0, 1, 1))]),
        ("a", [("died", (0, 2, 0))]),
        ("a warned", [("a warned", (1, 0, 1)), ("a", (1, 0, 0)), ("a warned", (1, 1, 0))]),
        # A skip on the base is no known failure.
        ("skipped", [("-a", (0, 1, 0))]),
    ],
)
def test_a_commit_may_have_the_failures_of_the_base(base: str, commits: list[tuple[str, tuple[int, int, int]]]) -> None:
    known = suites.failures(ran(base))
    assert [(commit, suites.excuse(ran(commit), known).counts) for commit, _ in commits] == [
        (commit, Counts(*counts)) for commit, counts in commits
    ]


@pytest.mark.parametrize(
    ("lacking", "words", "failed"),
    [
        (["x:a"], "-a b", 0),
        (["x:a"], "a -b", 1),
        (["x:a"], "a ~b", 1),
        (["x"], "a ~b", 0),
        (["x"], "skipped", 0),
        ([], "skipped", 1),
        (["other:a"], "-a b", 1),
    ],
)
def test_only_what_a_kernel_lacks_may_fail_or_skip(lacking: list[str], words: str, failed: int) -> None:
    assert suites.excuse_lacking(lacking, ran(words)).counts.failed == failed


def test_a_test_of_cryptsetup_must_not_skip(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, run_test(r"1..0 # SKIP no mood\n", 4))
    suite = suites.Suite(machine, "cryptsetup", cryptsetup=CRYPTSETUP)
    assert suite.run(suite.cryptsetup_tests(files.cryptsetup_tests())) == Counts(0, 2, 2)
    assert verdicts("cryptsetup") == {"cryptsetup/options": NOT_OK, "cryptsetup_on_base/options": NOT_OK}


def test_make_test_runs_every_test(machine: Machine) -> None:
    suites.test_queue(machine, files.kselftests(), cryptsetup=CRYPTSETUP)
    assert verdicts("test").keys() == {*files.cryptsetup_tests(), *files.kselftests()}
