"""commands: which parts a stage has, for which targets, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmcrypt_inline.commands import cli, machines, testing
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common import paths
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees.targets import TARGETS

# What runs where no target is named.
UNNAMED = [name for name, target in TARGETS.items() if not target.long_term]


def test_no_target_named_means_all_or_the_default() -> None:
    nothing = Request(None, {}, None)
    assert [target.name for target in nothing.targets()] == UNNAMED
    assert not {"linux-6.1", "linux-6.12"} & {*UNNAMED}
    assert nothing.target().name == "linux-5.8"
    for name in ("cryptsetup-2.3", "linux-6.12"):
        assert [target.name for target in Request(name, {}, None).targets()] == [name]


def test_unknown_checks_are_refused_before_any_work() -> None:
    for wanted in ("shellcheck_is_silent no_such_check", "each_patch_builds_without_new_warnings"):  # cryptsetup's
        assert cli.main(["check", "--target", "linux-5.8", "--check", wanted]) == 1
    assert not (paths.BUILD / "linux-5.8").exists()


def test_a_target_that_cannot_boot_is_refused_by_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--target", "cryptsetup-2.3"]) == 1
    assert "is no kernel to boot" in capsys.readouterr().err


def test_cryptsetup_is_tested_natively_with_both_drivers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "ensure_packages", lambda *_: None)
    for wrong in (["--variant", "base"], ["--accel", "tcg"]):
        assert cli.main(["selftest", "--target", "cryptsetup-2.3", *wrong]) == 1
        assert "no VARIANT=, no ACCEL=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "name"), [("base", "base"), ("{}", "given"), ("new={}", "new"), ("none", ""), ("{}x", ""), ("x={}.o", "")]
)
def test_variant_takes_a_driver(tmp_path: Path, word: str, name: str) -> None:
    source = tmp_path / "dm-crypt.c"
    source.touch()
    if name:
        assert machines.variant_wanted(word.format(source)) == (name, None if name == "base" else source)
        return
    with pytest.raises(UserError, match="not base, series or a file"):
        machines.variant_wanted(word.format(source))
