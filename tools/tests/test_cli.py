"""The command line, and what surrounds the stages."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest

from dmcrypt_inline import cli, commands
from dmcrypt_inline.errors import UserError
from dmcrypt_inline.paths import REPO
from dmcrypt_inline.results import Counts
from dmcrypt_inline.targets import FLAVOURS, TARGETS, get_target

PACKAGE = REPO / "tools" / "dmcrypt_inline"
# The path that data takes: each may import those before it, never one after it.
STAGES = ("targets", "base", "series", "build", "guest", "results", "commands", "cli")


def test_an_unknown_target_is_refused_with_the_known_names() -> None:
    with pytest.raises(UserError, match=r"unknown target: linux-9\.9\n.*linux-5\.8"):
        get_target("linux-9.9")


@pytest.mark.parametrize("stage", sorted(commands.COMMANDS))
def test_every_stage_refuses_an_unknown_target_without_a_traceback(
    stage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "ensure_packages", lambda *_: None)
    assert cli.main([stage, "--target", "linux-9.9"]) == 1
    assert "unknown target" in capsys.readouterr().err


def test_the_parser_offers_exactly_the_stages() -> None:
    text = cli.parser().format_help()
    for name in commands.COMMANDS:
        assert f"    {name} " in text


def test_an_interrupt_ends_with_advice(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(commands.COMMANDS, "tree", interrupted)
    assert cli.main(["tree"]) == 130
    assert "run the same command again" in capsys.readouterr().out


def test_make_forwards_everything(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    python.chmod(0o755)
    argv = ["make", "-s", "-C", str(REPO), "demo", f"PYTHON={python}", "TARGET=t", "LINUX=/a b", "ACCEL=tcg"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(argv, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "tools/dmcrypt-inline|demo|--target|t|--linux|/a b|--accel|tcg|"


def test_what_a_calling_make_leaves_does_not_reach_the_kernel_s(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAKEFLAGS", "TARGET", "ARCH", "KBUILD_OUTPUT", "GIT_DIR"):
        monkeypatch.setenv(name, "x")
    cli.clean_environment()
    assert not {"MAKEFLAGS", "TARGET", "ARCH", "KBUILD_OUTPUT", "GIT_DIR"}.intersection(os.environ)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("....\n58 passed in 15.50s", Counts(58, 0, 0)),
        ("1 failed, 3 passed, 2 skipped in 0.1s\n", Counts(3, 1, 2)),
        ("2 passed, 1 error in 0.1s\n", Counts(2, 1, 0)),
        ("4 errors in 0.1s\n", Counts(0, 4, 0)),
        ("no tests ran in 0.01s\n", Counts(0, 0, 0)),
        ("", Counts(0, 0, 0)),
    ],
)
def test_pytest_counts(output: str, expected: Counts) -> None:
    assert commands.pytest_counts(output) == expected


def test_every_target_is_whole() -> None:
    for target in TARGETS.values():
        assert target.recipe.patch.is_file()
        assert target.source in target.blobs
        assert set(target.fragments) == set(FLAVOURS)


def test_a_stage_imports_no_later_stage() -> None:
    for place, stage in enumerate(STAGES):
        imported = set()
        for node in ast.walk(ast.parse((PACKAGE / f"{stage}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                imported |= {node.module} if node.module else {alias.name for alias in node.names}
        assert not imported.intersection(STAGES[place + 1 :]), stage


def test_modules_stay_short() -> None:
    assert [path.name for path in PACKAGE.glob("*.py") if len(path.read_text().splitlines()) >= 300] == []
