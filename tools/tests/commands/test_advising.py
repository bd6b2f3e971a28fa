"""advising.py: advise from a clone."""

from __future__ import annotations

import json

import pytest

from dmcrypt_inline.advise import command
from dmcrypt_inline.commands import cli


def test_the_clone_s_command_line_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (cli.main, command.main):
        assert main(["advise", "--json"]) in (0, 1, 2)
        assert "mappings" in json.loads(capsys.readouterr().out)
        assert main(["advise", "--apply", "no such name", "--yes"]) == 2
        assert "no dm-crypt mapping no such name is open" in capsys.readouterr().err
