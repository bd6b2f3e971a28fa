from pathlib import Path

import pytest

from dmcrypt_inline.commands import cli, machines
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common import paths
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees.targets import TARGETS


def test_no_target_named_means_the_default_or_all_except_the_long_term_ones() -> None:
    assert Request().target().name == "linux-5.8"
    assert {target.name for target in Request().targets()} == set(TARGETS) - {"linux-6.1", "linux-6.12"}
    assert [target.name for target in Request("linux-6.12").targets()] == ["linux-6.12"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["check", "--target", "linux-5.8", "--check", "shellcheck_is_silent no_such_check"], "no check no_such_check"),
        (["check", "--target", "linux-5.8", "--check", "each_patch_builds_without_new_warnings"], "no check each_"),
        (["demo", "--target", "linux-9.9"], "linux-9.9"),
        (["demo", "--target", "cryptsetup-2.3"], "no kernel"),
        (["selftest", "--target", "cryptsetup-2.3", "--variant", "base"], "no VARIANT="),
        (["selftest", "--target", "cryptsetup-2.3", "--accel", "tcg"], "no ACCEL="),
        (["am"], "LINUX="),
        (["am", "--linux", "a", "--cryptsetup", "b"], "LINUX="),
        (["bench", "--plan", "w9"], "w9"),
        (["bench", "--variant", "nonsense"], "nonsense"),
        (["bench", "--accel", "native", "--plan", "w1"], "w1"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_any_work(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("dmcrypt_inline.common.host.install_packages")
    assert cli.main(arguments) == 1
    assert named in capsys.readouterr().err
    assert not [path for path in paths.BUILD.glob("*") if path.is_dir()]


def test_variant_takes_drivers_with_names_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "dm-crypt.c"
    source.touch()
    assert machines.drivers_wanted([f"{source}", f"new={source}"]) == {"given": source, "new": source}
    wrong = ("none", "{}x", "x={}.o", "../x={}", "series={}", "patch-03={}", "x=/nowhere/x.c", "base", "a={0} a={0}")
    for words in wrong:
        with pytest.raises(UserError):
            machines.drivers_wanted(words.format(source).split())
