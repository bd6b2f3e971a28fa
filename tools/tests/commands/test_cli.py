import ast
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dmcrypt_inline.commands import cli
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common.paths import REPO, TOOLS
from dmcrypt_inline.testing import files
from dmcrypt_inline.trees.targets import TARGETS, VARIABLES

OF_REQUEST = {"target", "accel", *map(str.lower, VARIABLES)}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Request, dict[str, object]]]:
    """The requests and options that the stages, none of which does its work, get."""
    found: list[tuple[Request, dict[str, object]]] = []

    def remember(request: Request, **given: object) -> None:
        found.append((request, given))

    for name, stage in cli.STAGES.items():
        monkeypatch.setitem(cli.STAGES, name, replace(stage, call=remember))
    return found


@pytest.fixture
def forwarded(tmp_path: Path) -> Callable[..., list[str]]:
    """The arguments that make gives to the program."""
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    python.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def run_make(*given: str, **environment: str) -> list[str]:
        made = ["make", "-s", "-C", str(REPO), f"PYTHON={python}", *given]
        done = subprocess.run(made, env={**clean, **environment}, check=True, capture_output=True, text=True)
        return done.stdout.split("|")[1:-1]

    return run_make


def test_make_has_the_stages_of_the_tool(forwarded: Callable[..., list[str]]) -> None:
    assert sorted(forwarded(*cli.STAGES)[::2]) == sorted(cli.STAGES)


@pytest.mark.parametrize("value", ["", "a", "-x", 'A O\'Brien, $B $(C) `D` "E" \\F ~ <a@host.example>'])
def test_make_changes_nothing_of_a_value(forwarded: Callable[..., list[str]], value: str) -> None:
    assert forwarded("-j2", "outbox", f"SIGN={value}", SIGN="environment", TEST="x") == [f"SIGN={value}", "outbox"]


@pytest.mark.parametrize("stage", cli.STAGES)
def test_the_options_of_a_stage_are_what_its_function_takes(stage: str) -> None:
    names = vars(cli.stage_parser(stage).parse_args([])).keys()
    code = cli.STAGES[stage].call.__code__
    assert set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) == {"request", *names} - OF_REQUEST


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        (["TESTS=table", "selftest"], "TEST="),
        (["TEST=x", "test"], "TARGET="),
        (["TARGET=linux-5.8", "list"], "no variable"),
        (["ACCEL=qemu", "selftest"], "ACCEL="),
        (["ACCEL=native", "demo"], "ACCEL="),
        (["WHAT=soak", "MINUTES=-1", "prove"], "MINUTES="),
        (["QUICK=yes", "selftest"], "QUICK="),
        (["PRUNE=-1", "cache"], "PRUNE="),
        (["LINUX=~nobody.at.all/x", "tree"], "LINUX="),
        (["tests"], "package-test"),
        (["tree", "--tar", "linux-5.8"], "TARGET="),
        *(([f"CRYPTSETUP={REPO}", stage], "LINUX=") for stage in ("bench", "mutants", "package")),
    ],
)
def test_a_word_that_a_stage_does_not_take_is_an_error(
    asked: list[object], capsys: pytest.CaptureFixture[str], arguments: list[str], listed: str
) -> None:
    assert cli.main(arguments) == 1
    assert asked == []
    assert listed in capsys.readouterr().err


HOME = "/home/o'brien"


@pytest.mark.parametrize(
    ("arguments", "request_", "expected"),
    [
        (
            ["TEST=a  b", "QUICK=1", "VARIANT=a=/b c", "TARGET=linux-5.8", "ACCEL=tcg", "selftest"],
            Request("linux-5.8", {}, "tcg"),
            {"tests": "a  b", "quick": True, "variant": "a=/b c", "exclude": "", "blktests": None},
        ),
        (
            ["TEST=", "QUICK=0", "BLKTESTS=/b c", "selftest"],
            Request(),
            {"tests": "", "quick": False, "variant": "series", "exclude": "", "blktests": Path("/b c")},
        ),
        (["VARIANT=a=b c=d", "bench"], Request(), {"plan": "full", "rounds": None, "variants": ["a=b", "c=d"]}),
        (["bench"], Request(), {"plan": "full", "rounds": None, "variants": []}),
        (
            ["LINUX=~/x", "tree", "--cryptsetup", "y z"],
            Request(None, {"LINUX": Path(HOME, "x"), "CRYPTSETUP": Path("y z").absolute()}),
            {},
        ),
    ],
)
def test_variables_of_make_are_options(
    asked: list[tuple[Request, dict[str, object]]],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    request_: Request,
    expected: dict[str, object],
) -> None:
    monkeypatch.setenv("HOME", HOME)
    assert cli.main(arguments) == 0
    assert asked == [(request_, expected)]


def test_the_list_has_what_options_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    listed = set(capsys.readouterr().out.split())
    assert {*TARGETS, "table", "own_suite", "takes_any_word"} <= listed


def test_a_reader_that_ends_early_is_no_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "dmcrypt-inline", "list"], cwd=TOOLS, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 1)


def test_an_error_of_the_file_system_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DMCRYPT_INLINE_CACHE", str(tmp_path / "file" / "below"))
    assert cli.main(["cache"]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_variables_of_a_calling_make_do_not_reach_the_kernel_s(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"MAKEFLAGS", "TARGET", "ARCH", "KBUILD_OUTPUT", "GIT_DIR", "KCFLAGS", "LLVM"}
    for name in names:
        monkeypatch.setenv(name, "x")
    cli.clean_environment(["TARGET=linux-5.8"])
    assert not names.intersection(os.environ)


def test_the_tests_that_a_target_names_exist() -> None:
    known = {Path(test).name for test in files.kselftests()}
    for target in TARGETS.values():
        named = (*target.defects, *target.exceptions, *target.native_exceptions)
        assert {name.partition(":")[0] for name in named} <= known


def test_an_older_python_is_told_which_one_is_needed() -> None:
    entry = TOOLS / "dmcrypt-inline"
    program = f"import runpy, sys; sys.version_info = (3, 10); runpy.run_path({str(entry)!r}, run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "3.11" in ended.stderr
    ast.parse(entry.read_text(), feature_version=(3, 7))  # it can read that far
