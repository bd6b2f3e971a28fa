"""commands: which parts a stage has, for which targets, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from guests import CRYPTSETUP

from dmcrypt_inline.checks.checklist import Check
from dmcrypt_inline.commands import cli, measuring, testing
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests.machine import Machine
from dmcrypt_inline.kernels.build import Kernel
from dmcrypt_inline.proofs import suites
from dmcrypt_inline.proofs.guest_tests import names
from dmcrypt_inline.trees.series import Tree
from dmcrypt_inline.trees.targets import TARGETS, Target


def test_no_target_named_means_all_or_the_default() -> None:
    nothing = Request(None, {}, None)
    assert [target.name for target in nothing.targets()] == list(TARGETS)
    assert nothing.target().name == "linux-5.8"
    one = Request("cryptsetup-2.3", {}, None)
    assert [target.name for target in one.targets()] == ["cryptsetup-2.3"]


def test_checks_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def named(*names: str) -> list[Check]:
        return [Check(name, lambda: None) for name in names]

    for name in ("ensure_packages", "_trees", "python_env"):
        monkeypatch.setattr(testing, name, lambda *_: None)
    monkeypatch.setattr(Request, "base", lambda *_: None)
    monkeypatch.setattr(testing, "source_checks", lambda *_: named("lint", "spelling"))
    monkeypatch.setattr(testing, "queue_checks", lambda *_, **__: named("mails", "style"))
    assert cli.main(["check", "--target", "linux-5.8", "--only", "style  lint"]) == 0
    assert capsys.readouterr().out == "ok lint\nok style\n2 passed, 0 failed, 0 skipped\n"
    assert cli.main(["check", "--target", "linux-5.8", "--only", "style lin"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "there is no check lin\n  CHECK= takes:\n    lint\n    mails\n" in captured.err


def test_a_target_that_cannot_boot_is_refused_by_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--target", "cryptsetup-2.3"]) == 1
    assert "is no kernel to boot" in capsys.readouterr().err


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the parts that ran; each counts one claim of a kind."""
    ran: list[str] = []

    def part(name: str, counts: Counts) -> Callable[..., Counts]:
        def run_part(target: Target | None = None, *_: object) -> Counts:
            ran.append(f"{name} {target.name}" if target else name)
            return counts

        return run_part

    for group in (measuring, testing):
        monkeypatch.setattr(group, "ensure_packages", lambda *_: None)
    monkeypatch.setattr(testing, "run_own_tests", part("pytest", Counts(10, 0, 0)))
    monkeypatch.setattr(testing, "_check_sources", part("sources", Counts(1, 0, 0)))
    monkeypatch.setattr(testing, "_trees", lambda *_: Counts(0, 0, 0))
    monkeypatch.setattr(testing, "_kernels", lambda *_: None)
    monkeypatch.setattr(testing, "_check", part("check", Counts(2, 0, 1)))
    monkeypatch.setattr(testing, "_build_cryptsetup", lambda *_: Counts(0, 0, 0))
    monkeypatch.setattr(testing, "_builds", part("builds", Counts(0, 0, 0)))
    monkeypatch.setattr(testing, "_in_guests", part("guest", Counts(3, 0, 0)))
    return ran


def test_selftest_of_cryptsetup_runs_its_tests_in_native_guests(
    stubbed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Request, "tree", lambda _self, target: target.name)
    monkeypatch.setattr(testing, "make_machine", lambda _request, *wanted: wanted)
    ran: list[object] = []

    def of_cryptsetup(machine: object, cryptsetup: object, quick: bool, tests: list[str]) -> Counts:
        ran.append((machine, cryptsetup, quick, tests))
        return Counts(1, 0, 0)

    monkeypatch.setattr(suites, "of_cryptsetup", of_cryptsetup)
    monkeypatch.setattr(testing, "patched_cryptsetup", lambda _request: CRYPTSETUP)
    wanted = ["--quick", "--test", "cryptsetup_on_base own_suite"]
    assert cli.main(["selftest", "--target", "cryptsetup-2.3", *wanted]) == 0
    tests = ["cryptsetup/own_suite", *names("cryptsetup_on_base")]
    assert ran == [(("linux-5.8", "native", ("base", "series")), CRYPTSETUP, True, tests)]
    assert cli.main(["selftest", "--target", "cryptsetup-2.3", "--variant", "base"]) == 1
    assert stubbed == []


@pytest.mark.parametrize(
    ("word", "name"), [("base", "base"), ("{}", "mine"), ("new={}", "new"), ("none", ""), ("{}x", ""), ("x={}.o", "")]
)
def test_selftest_takes_a_driver_of_yours(
    stubbed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, name: str
) -> None:
    source = tmp_path / "dm-crypt.c"
    source.touch()
    mine = Machine(cast(Tree, None), cast(Kernel, None), {}, None)
    monkeypatch.setattr(Request, "tree", lambda _self, target: target.name)
    monkeypatch.setattr(testing, "make_machine", lambda *_: mine)
    monkeypatch.setattr(testing, "module_at", lambda *given: given[-1])
    ran: list[object] = []

    def selftest(machine: Machine, _quick: bool, variant: str, _tests: list[str]) -> Counts:
        ran.append((machine.modules, variant))
        return Counts(1, 0, 0)

    monkeypatch.setattr(suites, "selftest", selftest)
    assert cli.main(["selftest", "--variant", word.format(source)]) == (0 if name else 1)
    assert ran == ([({} if name == "base" else {name: source}, name)] if name else [])


@pytest.mark.parametrize(
    ("arguments", "expected", "counted"),
    [
        (
            ["check"],
            ["sources", "check linux-5.8", "check linux-7.3", "check cryptsetup-2.3", "check linux-7.3-speed"],
            "9 passed, 0 failed, 4 skipped",
        ),
        (["check", "--target", "cryptsetup-2.3"], ["sources", "check cryptsetup-2.3"], "3 passed, 0 failed, 1 skipped"),
        (
            ["test"],
            [
                *("pytest", "sources", "check linux-5.8", "check linux-7.3", "check cryptsetup-2.3"),
                *("check linux-7.3-speed", "builds linux-5.8", "guest linux-5.8", "builds linux-7.3"),
                *("guest linux-7.3", "builds linux-7.3-speed", "guest linux-7.3-speed"),
            ],
            "28 passed, 0 failed, 4 skipped",
        ),
        (
            ["test", "--target", "linux-5.8"],
            ["pytest", "sources", "check linux-5.8", "builds linux-5.8", "guest linux-5.8"],
            "16 passed, 0 failed, 1 skipped",
        ),
    ],
)
def test_the_last_line_counts_every_part(
    stubbed: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], expected: list[str], counted: str
) -> None:
    assert cli.main(arguments) == 0
    assert stubbed == expected
    assert capsys.readouterr().out.splitlines()[-1] == counted


def test_a_part_that_cannot_run_fails_and_stops_no_other(
    stubbed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> Counts:
        raise UserError("no network")

    monkeypatch.setattr(testing, "_check", refuses)
    assert cli.main(["test"]) == 1
    assert stubbed == [
        "pytest",
        "sources",
        "builds linux-5.8",
        "guest linux-5.8",
        "builds linux-7.3",
        "guest linux-7.3",
        "builds linux-7.3-speed",
        "guest linux-7.3-speed",
    ]
    printed = capsys.readouterr().out
    assert "not ok checks_of_cryptsetup-2.3_can_run\nno network" in printed
    assert printed.splitlines()[-1] == "20 passed, 4 failed, 0 skipped"
