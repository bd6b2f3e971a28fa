from pathlib import Path

import pytest
from small import SOURCE, git, git_tree, make_target, shell

from dmcrypt_inline.commands import cli, machines, queue
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common import paths
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import selftests
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.refresh import write_back
from dmcrypt_inline.trees.series import apply_series, check_out_all
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
    ("word", "name"), [("base", "base"), ("{}", "given"), ("new={}", "new"), ("none", ""), ("{}x", ""), ("x={}.o", "")]
)
def test_variant_takes_a_driver(tmp_path: Path, word: str, name: str) -> None:
    source = tmp_path / "dm-crypt.c"
    source.touch()
    if name:
        assert machines.variant_wanted(word.format(source)) == (name, None if name == "base" else source)
        return
    with pytest.raises(UserError):
        machines.variant_wanted(word.format(source))


def test_the_tree_may_be_edited_after_refresh_selftests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "selftests"
    directory.mkdir()
    (directory / "Makefile").write_text("all:\n")
    monkeypatch.setattr(selftests, "SELFTESTS", directory)
    target = make_target(tmp_path)
    base = prepare_base(target, git_tree(tmp_path / "linux", None))
    monkeypatch.setattr(Request, "targets", lambda _: [target])
    monkeypatch.setattr(Request, "tree", lambda *_: apply_series(target, base))
    tree = check_out_all(apply_series(target, base)).path
    add = f"mkdir -p {selftests.IN_TREE}; cp Makefile {selftests.IN_TREE}; git add -A; git commit -qm 'selftests: add'"
    shell(tree, add)
    write_back(target, base)
    (directory / "Makefile").write_text("all: tests\n")
    assert queue.refresh_selftests(Request()) == 0
    assert (tree / selftests.IN_TREE / "Makefile").read_text() == "all: tests\n"
    shell(tree, f"echo more >>{SOURCE}; git commit -q -a -m 'dm crypt: add more'")
    write_back(target, base)
    assert "more\n" in git(tree, "show", f"series:{SOURCE}")
