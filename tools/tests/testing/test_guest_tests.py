from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from guests import make_guests, make_kernel, make_tests, module, run_test, stand_in

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests.kernel_log import find_warnings
from dmcrypt_inline.kernels.build import Kernel
from dmcrypt_inline.testing import files, guest_tests, mutants
from dmcrypt_inline.testing.ktap import parse
from dmcrypt_inline.trees.targets import DEFAULT, get_target


@pytest.fixture
def give_mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that gives a target mutants: their names, and the tests after "Trips:"."""
    make_tests(tmp_path, monkeypatch, {"functional/a": "# Guest: emulated\n", "functional/b": "", "dm-crypt/c": ""})
    monkeypatch.setattr(mutants, "MUTANTS", tmp_path)

    def give(target: str, **trips: str) -> None:
        (tmp_path / target).mkdir()
        for name, tests in trips.items():
            (tmp_path / target / f"{name}.patch").write_text(f"Wrong.\n\nTrips: {tests}\n---\n")

    return give


@pytest.mark.parametrize(
    ("text", "status", "warning", "counts", "found_defect"),
    [
        ("1..2\nok 1 a\nok 2 b\n", 0, "", (2, 0, 0), False),
        ("1..2\nok 1 a\nnot ok 2 b\n", 1, "", (1, 1, 0), True),
        ("1..1\nok 1 a\n", 0, "BUG: x", (1, 1, 0), True),
        ("1..1\nok 1 a\n", 0, "rcu: INFO: rcu_sched self-detected stall on CPU", (1, 1, 0), False),
        ("1..2\nok 1 a\n", None, "", (1, 2, 0), False),
        ("1..1\nok 1 a\n", 1, "", (1, 1, 0), False),
        ("1..0 # SKIP needs root\n", 4, "", (0, 0, 1), False),
        ("1..0 # SKIP needs root\n", 0, "", (0, 1, 1), False),
        ("1..1\nBail out! no disk\n", 1, "", (0, 2, 0), False),
        ("", None, "", (0, 2, 0), False),
    ],
)
def test_a_test_counts_for_what_it_did(
    text: str, status: int | None, warning: str, counts: tuple[int, int, int], found_defect: bool
) -> None:
    result = guest_tests.TestResult("name", parse(text), status, find_warnings(warning))
    assert (result.counts.passed, result.counts.failed, result.counts.skipped) == counts
    assert result.found_defect == found_defect


def test_a_test_has_the_guest_that_it_asks_for(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n")
    asks = "# CPUs: 2\n# Kernel arguments: kmemleak=on\n# Provokes: BUG: f.rst\n"
    make_tests(tmp_path, monkeypatch, {"one": asks, "two": ""})
    body = run_test(r"1..1\nok 1 a\n")
    stand_in(monkeypatch, tmp_path, f'{body}; echo "BUG: first"; echo "$all" >"$SHARE/results/all"')
    for test, cpus, kmemleak, failed in (("one", 2, "on", 0), ("two", 1, "off", 1)):
        own = replace(guests, out=tmp_path / test)
        assert own.run(module(tmp_path, "series"), test, 20.0).counts.failed == failed
        given = (tmp_path / test / "share" / "results" / "all").read_text()
        assert f"--cpus {cpus} " in given
        assert f"kmemleak={kmemleak} " in given
        assert "cryptd_max_cpu_qlen=4" in given


@pytest.mark.parametrize("console", ["", "BUG: at boot\nguest test: functional/io\n"])
def test_a_guest_that_is_silent_or_warns_before_the_test_is_an_error(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: str
) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, "")
    body = run_test(r"1..1\nok 1 a\n").replace('echo "guest test: $TEST"', f"printf '{console}'")
    stand_in(monkeypatch, tmp_path, body)
    with pytest.raises(UserError):
        guests.run(module(tmp_path, "series"), "functional/io", 20.0)


@pytest.mark.parametrize(
    ("text", "tests", "debug_only"),
    [
        ("Trips: c b\n\n--- a/x\n+++ b/x\n", ("dm-crypt/c", "functional/b"), ()),
        ("Trips: c:any_order a\n", ("dm-crypt/c:any_order", "functional/a"), ("functional/a",)),
        ("Trips: b\nTrips emulated: c:sleeps\n", ("functional/b", "dm-crypt/c:sleeps"), ("dm-crypt/c:sleeps",)),
        ("Trips: no_such\n", None, ()),
        ("Trips:\n", None, ()),
        ("Trips: b no_such\n", None, ()),
        ("", None, ()),
        ("Trips emulated: no_such\n", None, ()),
    ],
)
@pytest.mark.usefixtures("give_mutants")
def test_a_mutant_must_name_its_tests(
    tmp_path: Path, text: str, tests: tuple[str, ...] | None, debug_only: tuple[str, ...]
) -> None:
    patch = tmp_path / "wrong.patch"
    patch.write_text(text)
    if tests:
        assert mutants.read_mutant(patch) == mutants.Mutant("wrong", patch, tests, debug_only)
    else:
        with pytest.raises(UserError):
            mutants.read_mutant(patch)


def test_the_sample_needs_no_debug_kernel_and_not_the_suite_of_the_tree(give_mutants: Callable[..., None]) -> None:
    give_mutants(DEFAULT, one="a b", two="b", three="c b", four="a\nTrips emulated: c:d")
    found = [(mutant.name, mutant.tests) for mutant in mutants.sample(get_target(DEFAULT))]
    assert found == [("one", ("functional/b",))]


@pytest.mark.parametrize(
    ("wanted", "excluded", "found"),
    [
        ("", "", "dm-crypt/table functional/load functional/io"),
        ("functional/io table", "", "dm-crypt/table functional/io"),
        ("functional", "", "functional/load functional/io"),
        ("functional", "io", "functional/load"),
        ("", "functional", "dm-crypt/table"),
        ("functional no_such", "", None),
        ("", "no_such", None),
        ("table", "dm-crypt", None),
    ],
)
def test_tests_are_chosen_by_name_or_group(wanted: str, excluded: str, found: str | None) -> None:
    known = ["dm-crypt/table", "functional/load", "functional/io"]
    if found:
        assert files.chosen(known, wanted.split(), excluded.split()) == found.split()
    else:
        with pytest.raises(UserError):
            files.chosen(known, wanted.split(), excluded.split())


def test_a_stacked_queue_has_the_mutants_below_and_its_own_instead(give_mutants: Callable[..., None]) -> None:
    stacked = get_target("linux-7.3-sectors")
    give_mutants(stacked.below, one="c", two="c")
    give_mutants(stacked.name, two="c", three="c")
    found = {mutant.name: mutant.patch.parent.name for mutant in mutants.all_mutants(stacked)}
    assert found == {"one": stacked.below, "two": stacked.name, "three": stacked.name}


def test_mutants_are_chosen_by_name(give_mutants: Callable[..., None]) -> None:
    give_mutants(DEFAULT, one="a b", two="b", three="c b")
    for wanted, found in (([], ["one", "three", "two"]), (["two", "one"], ["two", "one"])):
        assert [mutant.name for mutant in mutants.named(get_target(DEFAULT), wanted)] == found
    with pytest.raises(UserError):
        mutants.named(get_target(DEFAULT), ["no_such"])


WARNING = "BUG: scheduling while atomic"


@pytest.mark.parametrize(
    ("test", "said", "found"),
    [
        ("functional/io", "1..2\nok 1 a\nnot ok 2 b\n", "b"),
        ("functional/io", "1..1\nok 1 a\n", ""),
        ("functional/io", "1..0 # SKIP no disk\n", ""),
        ("functional/io", "1..1\nBail out! no disk\n", ""),
        ("functional/io", f"1..1\nok 1 a\n{WARNING}\n", WARNING),
        ("functional/io:a", f"1..1\nok 1 a\n{WARNING}\n", ""),
        ("dm-crypt/table", f"1..1\nok 1 a\n{WARNING}\n", ""),
        ("dm-crypt/table:b", "1..2\nok 1 a\nnot ok 2 b on a disk\n", "b on a disk"),
        ("dm-crypt/table:a", "1..2\nok 1 a\nnot ok 2 b on a disk\n", ""),
    ],
)
def test_what_catches_a_mutant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, said: str, found: str
) -> None:
    report, file = parse(said), test.partition(":")[0]
    result = guest_tests.TestResult(file, report, report.exit_status, find_warnings(said))
    monkeypatch.setattr(guest_tests.Guests, "run", lambda _self, _module, ran, _: result if ran == file else None)
    guests = make_guests(make_kernel(tmp_path), tmp_path, monkeypatch, "")
    tried = mutants.run_mutant(guests, module(tmp_path, "wrong"), test)
    assert (tried.counts.passed, tried.counts.failed) == (1, 0) if found else (0, 1)
    assert not found or tried.details == found
