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
    "arguments",
    [
        ["check", "--target", "linux-5.8", "--check", "shellcheck_is_silent no_such_check"],
        ["check", "--target", "linux-5.8", "--check", "each_patch_builds_without_new_warnings"],  # cryptsetup's
        ["demo", "--target", "linux-9.9"],
        ["demo", "--target", "cryptsetup-2.3"],
        ["selftest", "--target", "cryptsetup-2.3", "--variant", "base"],
        ["selftest", "--target", "cryptsetup-2.3", "--accel", "tcg"],
        ["am"],
        ["am", "--linux", "a", "--cryptsetup", "b"],
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_any_work(arguments: list[str]) -> None:
    assert cli.main(arguments) == 1
    assert not [path for path in paths.BUILD.glob("*") if path.is_dir()]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *(("base", "base"), ("{}", "given"), ("new={}", "new")),
        *((word, "") for word in ("none", "{}x", "x={}.o", "../x={}", "series={}", "patch-03={}", "x=/nowhere/x.c")),
    ],
)
def test_variant_takes_a_driver(tmp_path: Path, word: str, name: str) -> None:
    source = tmp_path / "dm-crypt.c"
    source.touch()
    if name:
        assert machines.variant_wanted(word.format(source)) == (name, None if name == "base" else source)
        return
    with pytest.raises(UserError):
        machines.variant_wanted(word.format(source))


def test_each_driver_has_a_name_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "dm-crypt.c"
    source.touch()
    assert machines.drivers_wanted([f"a={source}", f"b={source}"]) == {"a": source, "b": source}
    for words in (["base"], [f"a={source}", f"a={source}"]):
        with pytest.raises(UserError):
            machines.drivers_wanted(words)
