"""cli.py: the command line; and how the tools are laid out."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dmcrypt_inline.commands import cli, queue, request
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common.paths import REPO, TOOLS
from dmcrypt_inline.testing import guest_tests
from dmcrypt_inline.trees.targets import TARGETS


def test_an_unknown_target_is_refused_with_the_known_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "ensure_packages", lambda *_: None)
    assert cli.main(["tree", "--target", "linux-9.9"]) == 1
    assert re.search(r"unknown target: linux-9\.9\n.*linux-5\.8", capsys.readouterr().err)


def stages() -> dict[str, argparse.ArgumentParser]:
    """The sub-commands and their parsers."""
    [found] = [action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found.choices)


def test_every_stage_offers_what_the_makefile_gives_it(forwarded: Callable[..., list[str]]) -> None:
    phony = re.findall(r"^\.PHONY: (.*)", (REPO / "Makefile").read_text(), re.M)[0].split()
    for stage in set(phony) - {"help"}:
        offered = {option for action in stages()[stage]._actions for option in action.option_strings}
        given = forwarded(stage, "TARGET=t", "LINUX=l", "CRYPTSETUP=c", "ACCEL=a", "RESULTS=r", "PLAN=p", "SIGN=s")
        assert {word for word in given if word.startswith("--")} <= offered, stage


def test_an_interrupt_ends_with_advice(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(queue, "tree", interrupted)
    assert cli.main(["tree"]) == 130
    assert "run the same command again" in capsys.readouterr().out


@pytest.fixture
def forwarded(tmp_path: Path) -> Callable[..., list[str]]:
    """What the tool is given by make, with these arguments and additions to the environment."""
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    python.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def run_make(*given: str, **environment: str) -> list[str]:
        made = ["make", "-s", "-C", str(REPO), f"PYTHON={python}", *given]
        done = subprocess.run(made, env={**clean, **environment}, check=True, capture_output=True, text=True)
        return done.stdout.split("|")[1:-1]

    return run_make


def test_make_forwards_everything(forwarded: Callable[..., list[str]]) -> None:
    everything = ("TARGET=t", "LINUX=/a b", "CRYPTSETUP=/c d", "ACCEL=tcg")
    expected = ["demo", "--target", "t", "--linux", "/a b", "--cryptsetup", "/c d", "--accel", "tcg"]
    assert forwarded("demo", *everything) == expected
    assert forwarded("test") == ["test"]
    assert forwarded("demo", "RESULTS=/a b.json") == ["demo"]
    assert forwarded("selftest", "QUICK=1") == ["selftest", "--quick"]
    assert forwarded("bench", "PLAN=w1", "VARIANT=a=b c=d") == ["bench", "--plan", "w1", "--variant", "a=b", "c=d"]
    assert forwarded("bench", "VARIANT=a=/o'b/$x.c b=y") == ["bench", "--variant", "a=/o'b/$x.c", "b=y"]


@pytest.mark.parametrize(
    ("stage", "variable", "option"),
    [
        *(("demo", name.upper(), f"--{name}") for name in ("target", "linux", "cryptsetup", "accel")),
        ("report", "RESULTS", "--results"),
        ("check", "CHECK", "--only"),
        *(("selftest", name, f"--{name.lower()}") for name in ("TEST", "VARIANT")),
        *(("soak", name, f"--{name.lower()}") for name in ("MINUTES", "SEED")),
        ("bench", "PLAN", "--plan"),
        *(("outbox", name, f"--{name.lower()}") for name in ("SIGN", "TRAILER", "VERSION")),
    ],
)
def test_make_changes_nothing_of_what_is_given(
    forwarded: Callable[..., list[str]], stage: str, variable: str, option: str
) -> None:
    odd = 'A O\'Brien, $B $(C) `D` "E" \\F ~ <a@host.example>'
    assert forwarded(stage, f"{variable}={odd}") == [stage, option, odd]


def test_who_signs_is_said_on_the_command_line(forwarded: Callable[..., list[str]]) -> None:
    assert forwarded("outbox", SIGN="A <a@host.example>", TRAILER="Word: x", VERSION="2") == ["outbox"]


def test_trees_of_one_s_own_reach_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def remember(request: Request) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr(queue, "tree", remember)
    cli.main(["tree", "--target", "cryptsetup-2.3", "--linux", "/a b", "--cryptsetup", "/c d"])
    cli.main(["tree"])
    monkeypatch.setenv("HOME", "/home/o'brien")
    monkeypatch.chdir("/usr")
    cli.main(["tree", "--linux", "~/x", "--cryptsetup", "y"])
    cli.main(["tree", "--linux", "~no.body/x"])
    assert asked == [
        Request("cryptsetup-2.3", {"LINUX": Path("/a b"), "CRYPTSETUP": Path("/c d")}, None),
        Request(None, {}, None),
        Request(None, {"LINUX": Path("/home/o'brien/x"), "CRYPTSETUP": Path("/usr/y")}, None),
        Request(None, {"LINUX": Path("/usr/~no.body/x")}, None),
    ]


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    script = """if True:
        import sys
        from dmcrypt_inline.commands import cli, queue
        from dmcrypt_inline.common.progress import say

        queue.tree = lambda _: [say("x" * 4096) for _ in range(100)]
        sys.exit(cli.main(["tree"]))
    """
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=TOOLS, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as told:
        assert told.stdout
        assert told.stderr
        told.stdout.close()
        assert (told.stderr.read(), told.wait()) == (b"", 1)


def test_an_error_of_the_file_system_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "build").touch()
    monkeypatch.setattr("dmcrypt_inline.common.paths.BUILD", tmp_path / "build")
    assert cli.main(["outbox", "--sign", "A <a@host.example>"]) == 1
    assert str(tmp_path / "build") in capsys.readouterr().err


def test_what_a_calling_make_leaves_does_not_reach_the_kernel_s(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"MAKEFLAGS", "TARGET", "ARCH", "KBUILD_OUTPUT", "GIT_DIR", "CRYPTSETUP"}
    names |= {"KCFLAGS", "KCPPFLAGS", "KAFLAGS", "KRUSTFLAGS", "CF", "LLVM", "LLVM_IAS"}
    for name in names:
        monkeypatch.setenv(name, "x")
    cli.clean_environment()
    assert not names.intersection(os.environ)


def test_the_tests_that_a_target_names_exist() -> None:
    known = {Path(test).name for test in guest_tests.kselftests()}
    for target in TARGETS.values():
        named = (*target.defects, *target.lacks, *target.lacks_natively)
        assert {name.partition(":")[0] for name in named} <= known
