"""advising.py, and where make test runs the proof of it."""

from __future__ import annotations

import json

import pytest

from dmcrypt_inline.advise import command
from dmcrypt_inline.commands import cli, testing
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.proofs import suites
from dmcrypt_inline.trees.targets import TARGETS


def test_the_clone_s_command_line_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (cli.main, command.main):
        assert main(["advise", "--json"]) in (0, 1, 2)
        assert "mappings" in json.loads(capsys.readouterr().out)
        assert main(["advise", "--apply", "no such name", "--yes"]) == 2
        assert "no dm-crypt mapping no such name is open" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name, it in TARGETS.items() if it.is_kernel and not it.below])
def test_make_test_runs_its_proof(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(Request, "tree", lambda *_: None)
    monkeypatch.setattr(testing, "make_machine", lambda *_, **__: None)
    monkeypatch.setattr(testing, "patched_cryptsetup", lambda _: None)
    monkeypatch.setattr(Request, "base", lambda *_: "volumes")
    monkeypatch.setattr(suites, "advice", lambda _, given: ["its job", given])
    monkeypatch.setattr(suites, "test", lambda *given: given[-1])
    monkeypatch.setattr(suites, "test_fixes", lambda *given: given[-1])
    assert testing._in_guests(TARGETS[name], Request()) == ["its job", "volumes"]  # type: ignore[comparison-overlap]
