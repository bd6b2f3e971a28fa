"""build_programs.py and checks/programs.py, with a cryptsetup of a few lines."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from small import PATCH, SOURCE, findings_of, git, make_queue, make_target, write_files

from dmcrypt_inline.checks import programs
from dmcrypt_inline.checks.checklist import Failed, Queue
from dmcrypt_inline.common.run import CommandError
from dmcrypt_inline.kernels import build_programs as stage
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import Tree, apply_series
from dmcrypt_inline.trees.targets import Build

MAKEFILE = """\
include configured
all: cryptsetup
cryptsetup: main.o old.o
	gcc -o $@ $^
%.o: %.c
	gcc $(cflags) -c -o $@ $<
install: all
	mkdir -p "$(DESTDIR)$(prefix)/sbin"
	cp cryptsetup "$(DESTDIR)$(prefix)/sbin/"
"""
OLD = "int old(int unused) { return 0; }\n"  # -Wextra has something to say about it
MAIN = """\
#include <stdio.h>
int main(void)
{
	puts("cryptsetup 2.3.3");
	return 0;
}
"""
FILES = {"Makefile": MAKEFILE, "main.c": MAIN, "old.c": OLD}
BUILD = Build(
    packages="cryptsetup",
    configure=(("sh", "-c", 'printf "$0\\n$1\\n" >configured', "prefix = {prefix}", "cflags = {cflags}"),),
    make=(("make", "all"),),
    program="installed/sbin/cryptsetup",
    install=(("make", "install", "DESTDIR="),),
)


def tree(place: Path, main: str, old: str = OLD) -> Tree:
    """A queue of one patch, applied: it makes main.c `main` and old.c `old`."""
    target = make_target(place, FILES, {"main.c": main, "old.c": old}, variable="CRYPTSETUP", build=BUILD)
    return apply_series(target, prepare_base(target, place / "work"))


CHANGED = MAIN.replace("2.3.3", "2.3.4")


def test_a_build_is_reused_until_the_tree_or_the_flags_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESTDIR", str(tmp_path / "elsewhere"))  # the caller's environment does not decide
    made = tree(tmp_path, CHANGED)
    first = stage.build_programs(made)
    mark = first.prefix / "mark"
    mark.touch()
    assert stage.build_programs(made) == first
    assert mark.exists()
    (first.prefix.parent / ".complete").unlink()  # the stamp comes last: this build was interrupted
    assert stage.build_programs(made) == first
    assert not mark.exists()
    mark.touch()
    assert made.target.build
    changed = replace(made.target, build=replace(made.target.build, packages="other"))
    stage.build_programs(replace(made, target=changed))
    assert not mark.exists()
    assert not (tmp_path / "elsewhere").exists()


def test_a_build_that_fails_shows_why_and_leaves_no_stamp(tmp_path: Path) -> None:
    made = tree(tmp_path, MAIN.replace("return 0", "return nothing"))
    for _ in range(2):
        with pytest.raises(CommandError, match=r"nothing.* undeclared"):
            stage.build_programs(made)


def queue(made: Tree) -> Queue:
    return Queue(made.target, lambda: made)


@pytest.mark.parametrize(
    ("main", "old", "expected"),
    [
        (
            CHANGED.replace("\treturn", "\tint x;\n\treturn"),
            OLD,
            rf"{PATCH}: main\.c: warning: unused variable",
        ),
        (CHANGED, OLD + OLD.replace("old", "older"), rf"{PATCH}: old\.c: warning: unused parameter"),
        (CHANGED.replace("0;", "nothing;"), OLD, rf"{PATCH}: it does not build"),
        (CHANGED, "\n\n" + OLD, ""),
    ],
    ids=["new warning", "old warning again", "broken", "old warning on another line"],
)
def test_a_patch_must_build_and_add_no_warning(tmp_path: Path, main: str, old: str, expected: str) -> None:
    with pytest.raises(Failed, match=expected) if expected else nullcontext():
        programs._each_builds(queue(tree(tmp_path, main, old)), BUILD)


@pytest.mark.parametrize(
    ("script", "finding"),
    [
        (f'grep 22 {SOURCE} && touch "$TESTDIR/written"', ""),
        (f"grep 23 {SOURCE}", "its test fails"),
        (f"grep version {SOURCE}", "its test passes without the patch"),
    ],
)
def test_the_own_test_of_a_patch_is_judged(tmp_path: Path, script: str, finding: str) -> None:
    queue = make_queue(tmp_path)
    tree = queue.applied()
    write_files(tree.path, {"test/run.sh": f"{script}\n"})
    git(tree.path, "add", "-A")
    git(tree.path, "commit", "-q", "--amend", "--no-edit")
    head = git(tree.path, "rev-parse", "HEAD").strip()
    target = replace(queue.target, own_test=("sh", "test/run.sh"))
    made = replace(tree, series=head, commits=(head,))
    found = findings_of(
        "each_patch_passes_its_test_that_fails_without_it",
        programs.program_checks(replace(queue, target=target, apply=lambda: made)),
    )
    assert (finding in found) if finding else not found
