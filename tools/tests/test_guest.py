"""guest.py, accel.py, guest_tests.py: how runs end, told with a stand-in for virtme-run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from dmcrypt_inline import accel, guest_tests, mutants, suites
from dmcrypt_inline.build import HOST, USER_MODE, Kernel, Module
from dmcrypt_inline.build_cryptsetup import Cryptsetup
from dmcrypt_inline.complaints import scan
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.guest import GuestResult, run_guest
from dmcrypt_inline.ktap import parse
from dmcrypt_inline.machine import Machine
from dmcrypt_inline.results import Counts
from dmcrypt_inline.run import CommandError
from dmcrypt_inline.series import Tree
from dmcrypt_inline.targets import get_target

# Finds the shared directory and the pid file as virtme-run and QEMU would; $SHARE and $PIDFILE are for the body.
STAND_IN = """#!/bin/sh
all=$*
while [ $# -gt 0 ]; do
	case $1 in
	--rwdir) SHARE=${2#*=} ;;
	-pidfile) PIDFILE=$2 ;;
	esac
	shift
done
"""


def make_kernel(place: Path) -> Kernel:
    """A kernel that no stand-in looks at."""
    modules = place / "modules"
    modules.mkdir()
    (modules / "null_blk.ko").write_text("a module")
    return Kernel("linux-5.8", "fast", HOST, "5.8.0", place, place, place, modules, place, "abc")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """The same."""
    return make_kernel(tmp_path)


def stand_in(monkeypatch: pytest.MonkeyPatch, place: Path, body: str) -> None:
    """Let `body` (sh) be what virtme-run does."""
    program = place / "env" / "bin" / "virtme-run"
    program.parent.mkdir(parents=True)
    program.write_text(STAND_IN + body)
    program.chmod(0o755)
    monkeypatch.setattr("dmcrypt_inline.host.python_env", lambda: place / "env")


def boot(
    kernel: Kernel, place: Path, *, timeout: float = 20.0, grace: float = 20.0, lines: list[str] | None = None
) -> GuestResult:
    """One run of nothing.sh."""
    return run_guest(
        kernel,
        "nothing.sh",
        name="test",
        out=place / "run",
        accel="tcg",
        timeout=timeout,
        grace=grace,
        on_line=None if lines is None else lines.append,
    )


def test_reports_status_and_passes_on_every_line(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = 'printf "one\\ntw" >"$SHARE/output"; sleep 1; printf "o\\nend" >>"$SHARE/output"; echo 3 >"$SHARE/status"'
    stand_in(monkeypatch, tmp_path, body)
    lines: list[str] = []
    result = boot(kernel, tmp_path, lines=lines)
    assert lines == ["one", "two", "end"]
    assert result.status == 3
    with pytest.raises(UserError, match="exit status 3"):
        result.require_success()


def test_shares_modules_and_scripts_in_private(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, 'cp -r "$SHARE/input" "$SHARE/results/seen"; echo 0 >"$SHARE/status"')
    result = boot(kernel, tmp_path)
    result.require_success()
    assert (result.results / "seen" / "modules" / "null_blk.ko").read_text() == "a module"
    assert (result.results / "seen" / "guest" / "enter.sh").exists()
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_a_guest_that_dies_has_no_status(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "echo nothing to see; exit 255")
    result = boot(kernel, tmp_path)
    assert result.status is None
    with pytest.raises(UserError, match="ended before its script did"):
        result.require_success()


def test_a_guest_that_hangs_is_killed(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "echo waiting; sleep 60")
    begin = time.monotonic()
    result = boot(kernel, tmp_path, timeout=1.0)
    assert time.monotonic() - begin < 10
    assert (result.status, result.why) == (None, "the guest did not end within 1 s")


def test_a_complaint_fails_a_run_that_says_it_succeeded(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, 'echo "BUG: KASAN: use-after-free in f"; echo 0 >"$SHARE/status"')
    result = boot(kernel, tmp_path)
    assert [complaint.kind for complaint in result.complaints] == ["KASAN"]
    with pytest.raises(UserError, match="the kernel complained 1 times"):
        result.require_success()


def test_a_guest_is_stopped_soon_after_a_complaint(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, 'echo $$ >"$PIDFILE"; echo "BUG: scheduling while atomic: fio/1"; exec sleep 60')
    begin = time.monotonic()
    result = boot(kernel, tmp_path, timeout=30.0, grace=1.0)
    assert time.monotonic() - begin < 10
    assert "was stopped" in result.why


def user_mode(kernel: Kernel, body: str) -> Kernel:
    """A kernel for User-Mode Linux, which is a program: `body` (sh) finds $SHARE, $PID and $SCRIPT."""
    image = kernel.modules.parent / "linux"
    image.write_text(
        "#!/bin/sh\nfor word; do\n"
        "case $word in\n"
        """guest_share=*) SHARE=${word#*=}; SHARE=${SHARE#\\"}; SHARE=${SHARE%\\"} ;;\n"""
        "guest_script=*) SCRIPT=${word#*=} ;;\n"
        "uml_dir=*) PID=${word#*=}guest/pid; mkdir -p ${PID%/*} ;;\n"
        "esac\ndone\n" + body
    )
    image.chmod(0o755)
    return replace(kernel, arch=USER_MODE, image=image)


def test_user_mode_linux_is_told_where_and_what(kernel: Kernel, tmp_path: Path) -> None:
    native = user_mode(kernel, 'echo "$SCRIPT" >"$SHARE/output"; echo up >&2; echo 0 >"$SHARE/status"')
    lines: list[str] = []
    result = boot(native, tmp_path, lines=lines)
    result.require_success()
    assert lines == ["nothing.sh"]
    assert "up" in result.console.read_text()
    assert Machine(None, native, {}, CRYPTSETUP, "kvm").accel() == "native"  # type: ignore[arg-type]


def test_user_mode_linux_is_stopped_soon_after_a_complaint(kernel: Kernel, tmp_path: Path) -> None:
    native = user_mode(kernel, 'echo $$ >"$PID"; echo "BUG: scheduling while atomic: fio/1"; exec sleep 60')
    begin = time.monotonic()
    assert "was stopped" in boot(native, tmp_path, timeout=30.0, grace=1.0).why
    assert time.monotonic() - begin < 10


def test_a_missing_virtme_run_is_an_error(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.host.python_env", lambda: tmp_path / "nowhere")
    with pytest.raises(CommandError, match="could not start"):
        boot(kernel, tmp_path)


def test_a_guest_that_counts_has_one_cpu(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert accel.choose(kernel, "icount") == "icount"
    seen = tmp_path / "seen"
    stand_in(monkeypatch, tmp_path, f'echo 0 >"$SHARE/status"; echo "$all" >{seen}')
    for chosen, cpus in (("tcg", "2"), ("icount", "1")):
        run_guest(kernel, "nothing.sh", name="test", out=tmp_path / "run", accel=chosen, timeout=20.0)
        given = seen.read_text()
        assert f" --cpus {cpus} " in given
        assert ("-icount shift=0" in given) == (chosen == "icount")
        assert "--disable-kvm" in given


def test_accel_refuses_an_unknown_word(kernel: Kernel) -> None:
    with pytest.raises(UserError, match="unknown accelerator: xen"):
        accel.choose(kernel, "xen")


def test_accel_without_kvm(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "KVM", tmp_path / "no-kvm")
    assert accel.choose(kernel, None) == "tcg"
    with pytest.raises(UserError, match=r"ACCEL=kvm, but .* is missing"):
        accel.choose(kernel, "kvm")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('echo "Hypervisor detected: KVM"; echo 0 >"$SHARE/status"', ""),
        ('echo "falling back to tcg"; echo 0 >"$SHARE/status"', "QEMU did not use it"),
        ('echo "Hypervisor detected: KVM"; sleep 60', "does not run this kernel: the guest did not end"),
    ],
)
def test_kvm_is_believed_only_after_a_trial(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(accel, "KVM", device)
    monkeypatch.setattr(accel, "TRIAL_SECONDS", 2.0)
    stand_in(monkeypatch, tmp_path, body)
    assert accel.choose(kernel, None) == ("tcg" if why else "kvm")
    stand_in_gone = tmp_path / "env" / "bin" / "virtme-run"
    stand_in_gone.unlink()  # the second answer comes from memory
    if why:
        with pytest.raises(UserError, match=why):
            accel.choose(kernel, "kvm")
    else:
        assert accel.choose(kernel, "kvm") == "kvm"


def test_complaints_are_blamed_on_the_test_that_ran() -> None:
    console = "boot\n[ 1.0] guest test: one\nBUG: first\n[ 2.0] guest test: two\nfine\nWARNING: second\n"
    blamed = guest_tests.blame(console, scan(console), ["one", "two"])
    assert {name: [c.first for c in found] for name, found in blamed.items()} == {
        "": [],
        "one": ["BUG: first"],
        "two": ["WARNING: second"],
    }


def test_what_a_test_provokes_is_no_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_tests, "TESTS", tmp_path)
    (tmp_path / "one.sh").write_text("#!/bin/sh\n# Provokes: BUG: f.rst\n# Provokes: other\n")
    found = guest_tests.unprovoked(scan("BUG: first\nBUG: second\n"), guest_tests.provoked("one"))
    assert [complaint.first for complaint in found] == ["BUG: second"]


@pytest.mark.parametrize(
    ("text", "status", "complaint", "counts", "tripped"),
    [
        ("1..2\nok 1 a\nok 2 b\n", 0, "", (2, 0, 0), False),
        ("1..2\nok 1 a\nnot ok 2 b\n", 1, "", (1, 1, 0), True),
        ("1..1\nok 1 a\n", 0, "BUG: x", (1, 1, 0), True),
        ("1..2\nok 1 a\n", None, "", (1, 2, 0), False),
        ("1..1\nok 1 a\n", 1, "", (1, 1, 0), False),
        ("1..0 # SKIP needs root\n", 4, "", (0, 0, 1), False),
        ("1..0 # SKIP needs root\n", 0, "", (0, 1, 1), False),
        ("1..1\nBail out! no disk\n", 1, "", (0, 2, 0), False),
        ("", None, "", (0, 2, 0), False),
    ],
)
def test_a_test_counts_for_what_it_did(
    text: str, status: int | None, complaint: str, counts: tuple[int, int, int], tripped: bool
) -> None:
    result = guest_tests.TestResult("name", parse(text), status, scan(complaint))
    assert (result.counts.passed, result.counts.failed, result.counts.skipped) == counts
    assert result.tripped == tripped


CRYPTSETUP = Cryptsetup("cryptsetup-2.3", Path("a prefix"), Path("tests"), "2.3.7", "", "")


def make_guests(
    kernel: Kernel,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    *,
    status: int = 0,
    mark: str = "guest test: $test",
) -> guest_tests.Guests:
    """Guests in which each test says `said` and ends with `status`."""
    body = (
        '. "$SHARE/input/environment"; cd "$SHARE/results"; for test in $TESTS; do mkdir -p "${test%/*}"; '
        f'echo "{mark}"; echo "# $test" >>"$SHARE/output"; '
        f"printf '{said}' >$test.ktap; echo {status} >$test.status; done; "
        f'cp ../input/environment {place}/seen; echo 0 >"$SHARE/status"'
    )
    stand_in(monkeypatch, place, body)
    return guest_tests.Guests(kernel, CRYPTSETUP, "tcg", place / "out", quick=True)


def found_in(guests: guest_tests.Guests, monkeypatch: pytest.MonkeyPatch) -> list[suites.Outcome]:
    """The list to which a suite that runs in `guests` adds what it finds."""
    found: list[suites.Outcome] = []
    monkeypatch.setattr(suites, "_guests", lambda *_, **__: guests)
    monkeypatch.setattr(suites, "_close", lambda *given: found.extend(given[-1]))
    return found


def module(place: Path, name: str) -> Module:
    """A module that no stand-in loads."""
    (place / f"{name}.ko").touch()
    return Module(name, place / f"{name}.ko", "")


def test_a_test_is_told_what_it_needs(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n")
    [result] = guests.run(module(tmp_path, "series"), ["dm-crypt/table_roundtrip"], 20.0)
    assert result.counts.passed == 1
    told = (tmp_path / "seen").read_text().splitlines()
    assert "export CRYPTSETUP_PREFIX='a prefix'" in told
    assert "export CRYPTSETUP_TESTS=tests" in told
    assert "export DM_CRYPT_QUICK=1" in told


def test_tests_that_want_other_kernel_arguments_get_a_guest_of_their_own(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n")
    monkeypatch.setattr(guest_tests, "TESTS", tmp_path / "tests")
    (tmp_path / "tests").mkdir()
    for name, wants in (("one", ""), ("two", "# Kernel arguments: kmemleak=on\n"), ("three", "")):
        (tmp_path / "tests" / f"{name}.sh").write_text(f"#!/bin/sh\n{wants}")
    results = guests.run(module(tmp_path, "series"), ["one", "two", "three"], 20.0)
    assert [result.name for result in results] == ["one", "three", "two"]
    booted = {name: (tmp_path / name / "console.log").read_text() for name in ("out", "out-from-two")}
    assert "kmemleak=off" in booted["out"] and "kmemleak=on" not in booted["out"]
    assert "kmemleak=on" in booted["out-from-two"] and "kmemleak=off" not in booted["out-from-two"]
    assert all("cryptd_max_cpu_qlen=4" in text for text in booted.values())


def test_a_kernel_that_does_not_write_to_its_console_is_an_error(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n", mark="silence")
    with pytest.raises(UserError, match="would go unseen"):
        guests.run(module(tmp_path, "series"), ["dm-crypt/table_roundtrip"], 20.0)


def test_only_what_is_executable_is_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_tests, "TESTS", tmp_path)
    (tmp_path / "group").mkdir()
    for name, mode in (("two.sh", 0o755), ("one.sh", 0o755), ("sourced.sh", 0o644), ("README", 0o755)):
        (tmp_path / "group" / name).touch(mode)
    assert guest_tests.names("group") == ["group/one", "group/two"]


def test_a_wrong_variant_must_name_its_tests(tmp_path: Path) -> None:
    patch = tmp_path / "variant.patch"
    patch.write_text("Trips: table_roundtrip bad_arguments\n\n--- a/x\n+++ b/x\n")
    assert mutants.must_trip(patch) == ("dm-crypt/table_roundtrip", "dm-crypt/bad_arguments")
    for text in ("Trips: no_such_test\n", "Trips:\n", "Trips: bad_arguments no_such_test\n", ""):
        patch.write_text(text)
        with pytest.raises(UserError, match="does not say which test must fail"):
            mutants.must_trip(patch)


def test_the_sample_exists() -> None:
    assert {mutant.name for mutant in mutants.named(mutants.SAMPLE)} == set(mutants.SAMPLE)


def test_mutants_are_chosen_by_name() -> None:
    assert [mutant.name for mutant in mutants.named(["takes_any_word"])] == ["takes_any_word"]
    assert mutants.named([]) == mutants.mutants()
    with pytest.raises(UserError, match=r"no wrong driver no_such in .*(?s:.)*takes_any_word"):
        mutants.named(["no_such"])


@pytest.mark.parametrize(
    ("said", "status", "found"),
    [
        (r"1..2\nok 1 a\nnot ok 2 b\n", 1, "b"),
        (r"1..1\nok 1 a\n", 0, "nothing"),
        (r"1..0 # SKIP no disk\n", 4, "nothing"),
        (r"1..1\nBail out! no disk\n", 1, "nothing"),
    ],
)
def test_a_mutant_is_caught_by_a_failure_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int, found: str
) -> None:
    guests = make_guests(make_kernel(tmp_path), tmp_path, monkeypatch, said, status=status)
    wrong = mutants.Mutant("wrong", tmp_path / "wrong.patch", ("dm-crypt/bad_arguments",))
    [proof] = mutants.prove(guests, wrong, module(tmp_path, "wrong"))
    proved = found != "nothing"
    assert proof == mutants.Proof("wrong", "bad_arguments", proved, found)
    assert mutants.counts([proof]).failed == (0 if proved else 1)
    assert ("NOT BY" in mutants.table([proof])) == (not proved)


def test_a_test_that_runs_on_the_base_is_a_failure() -> None:
    ran = guest_tests.TestResult("dm-crypt/a", parse("1..1\nok 1 a\n"), 0, ())
    skipped = guest_tests.TestResult("dm-crypt/a", parse("1..0 # SKIP no flags\n"), 4, ())
    assert not suites.skips(ran).proved
    assert suites.skips(skipped) == mutants.Proof("base", "a", True, "skipped: no flags")


@pytest.mark.parametrize(
    ("text", "status"), [("1..0 # SKIP no fio\n", 4), ("1..2\nok 1 a\nok 2 b # SKIP no null_blk\n", 0)]
)
def test_a_skip_of_what_could_have_run_is_a_failure(text: str, status: int) -> None:
    skipped = guest_tests.TestResult("dm-crypt/a", parse(text), status, ())
    assert (skipped.counts.failed, skipped.counts.skipped) == (0, 1)
    must = replace(skipped, must_run=True)
    assert must.counts.failed == 1
    assert must.faults[0].startswith("it skips what it could have run here: no ")


def test_the_base_must_fail_each_test_that_is_said_to_find_it_wrong(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = found_in(make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n"), monkeypatch)
    modules = {name: module(tmp_path, name) for name in ("base", "series")}
    tree = Tree(get_target("linux-7.3"), tmp_path, "", "", (), "", "a test")
    suites.test_fixes(Machine(tree, kernel, modules, CRYPTSETUP, None), ["bad_arguments"])
    proof, result = closed
    assert proof == mutants.Proof("base", "bad_arguments", False, "nothing")
    assert isinstance(result, guest_tests.TestResult)
    assert (result.name, result.counts.passed) == ("dm-crypt/bad_arguments", 1)


def test_a_test_is_told_to_take_any_driver(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n")
    for wanted, said in ((False, "''"), (True, "1")):
        replace(guests, any_driver=wanted).run(module(tmp_path, "series"), ["dm-crypt/table_roundtrip"], 20.0)
        assert f"export DM_CRYPT_ANY_DRIVER={said}" in (tmp_path / "seen").read_text().splitlines()


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
    monkeypatch.setattr(suites, "names", lambda _: ["a", "b", "c", "z"])
    modules = {name: module(tmp_path, name) for name in wrong}
    tree = Tree(get_target("linux-5.8"), tmp_path, "", "", (), "", "")
    suites.bisect_check(Machine(tree, kernel, modules, CRYPTSETUP, None))
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
    every = guest_tests.names("dm-crypt")
    jobs = suites._selftests(guests, module(tmp_path, "series"), every)
    boots = [guests.boot(test) for test in every]
    assert len(jobs) == sum(-(-boots.count(boot) // suites.SHARE[form]) for boot in set(boots))
    found = suites._found(jobs)
    assert [each.name for each in found] == every
    assert all(isinstance(each, guest_tests.TestResult) and each.counts.passed == 1 for each in found)
    assert {path.name for path in guests.out.iterdir()} >= {f"series-{number}" for number in range(len(jobs))}
    assert "    table_roundtrip: # dm-crypt/table_roundtrip" in capsys.readouterr().out.splitlines()


def test_cpus_are_as_many_as_the_test_says_else_one_in_the_short_form(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = replace(make_guests(kernel, tmp_path, monkeypatch, ""), accel="tcg", quick=True)
    assert guests.cpus("dm-crypt/table_roundtrip") == 1
    assert guests.cpus("dm-crypt/removed_under_load") == 2
    assert guests.cpus("dm-crypt/swap_over_crypt") == 1
    assert replace(guests, quick=False).cpus("dm-crypt/table_roundtrip") == 1
    assert replace(guests, quick=False).cpus("dm-crypt/swap_over_crypt") == 2
    assert replace(guests, accel="kvm").cpus("dm-crypt/table_roundtrip") == 2
    native = replace(guests, kernel=replace(kernel, arch=USER_MODE), quick=False)
    assert native.cpus("dm-crypt/removed_under_load") == 1


def test_few_selftests_take_few_guests(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests = make_guests(kernel, tmp_path, monkeypatch, r"1..1\nok 1 a\n")
    assert len(suites._selftests(guests, module(tmp_path, "series"), ["dm-crypt/bad_arguments"])) == 1


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


def test_lines_carry_the_name_of_their_test(capsys: pytest.CaptureFixture[str]) -> None:
    told = suites.Told()
    for line in ("booting", "# dm-crypt/bad_arguments", "ok 1 a", "# a remark"):
        told(line)
    assert capsys.readouterr().out.splitlines() == [
        "    booting",
        "    bad_arguments: # dm-crypt/bad_arguments",
        "    bad_arguments: ok 1 a",
        "    bad_arguments: # a remark",
    ]
