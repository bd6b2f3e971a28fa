from pathlib import Path

import pytest
from small import AFTER, BEFORE, PATCH, SOURCE, git, git_tree, kernel_tree, make_target, shell

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import Tree, apply_series, check_out_all, parse_series, read_series, snapshot
from dmcrypt_inline.trees.targets import Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return make_target(tmp_path)


def make(target: Target, tmp_path: Path) -> Tree:
    return check_out_all(apply_series(target, prepare_base(target, git_tree(tmp_path / "linux", None))))


def test_parse_series() -> None:
    assert parse_series("# all\n\n  a.patch  # why\nb.patch -p1\n") == ["a.patch", "b.patch"]


@pytest.mark.parametrize("text", ["", f"{PATCH}\nother.patch\n", "# nothing\n", f"{PATCH}\n{PATCH}\n", None])
def test_a_series_that_disagrees_is_refused(target: Target, text: str | None) -> None:
    target.series.unlink()
    if text is not None:
        target.series.write_text(text)
    with pytest.raises(UserError):
        read_series(target)


def test_the_queue_is_applied_one_commit_a_patch(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make(target, tmp_path)
    assert git(tree.path, "show", f"base:{SOURCE}") == BEFORE
    assert git(tree.path, "show", f"series:{SOURCE}") == (tree.path / SOURCE).read_text() == AFTER
    assert tree.commits == (tree.series,)
    monkeypatch.setattr("dmcrypt_inline.common.paths.BUILD", tmp_path / "elsewhere")
    git(tree.path, "checkout", "-q", "base")
    assert make(target, tmp_path).commits == tree.commits  # the same ids on every machine


def test_branches_named_like_the_tags_change_nothing(target: Target, tmp_path: Path) -> None:
    base = prepare_base(target, git_tree(tmp_path / "linux", None))
    before = apply_series(target, base)
    for name in ("base", "series"):
        git(before.path, "branch", name, before.base)
    assert apply_series(target, base) == before


def test_a_queue_is_applied_again_when_it_has_changed(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path)
    before = (tree.path / SOURCE).stat().st_mtime_ns
    assert make(target, tmp_path) == tree
    assert (tree.path / SOURCE).stat().st_mtime_ns == before
    change_patch(target)
    assert make(target, tmp_path).queue_hash != tree.queue_hash
    assert (tree.path / SOURCE).read_text() == "int version = 23;\n"


def change_patch(target: Target) -> None:
    patch = target.patches / PATCH
    patch.write_text(patch.read_text().replace("+int version = 22;", "+int version = 23;"))


def test_a_patch_that_does_not_apply_can_be_fixed(target: Target, tmp_path: Path) -> None:
    patch = target.patches / PATCH
    good = patch.read_text()
    patch.write_text(good.replace("-int version = 21;", "-int version = 20;"))
    with pytest.raises(UserError):
        make(target, tmp_path)
    patch.write_text(good)
    assert (make(target, tmp_path).path / SOURCE).read_text() == AFTER


def kept(tree: Path) -> list[str]:
    return git(tree, "for-each-ref", "--format=%(refname)", "refs/dmcrypt-inline/set-aside").split()


COMMIT_ON_QUEUE = f"echo mine >{SOURCE}; git commit -q -a -m mine; git checkout -q series"
WORK = [  # what the user does in the tree, what sets it aside then holds
    (f"echo mine >{SOURCE}", {SOURCE: "mine\n"}),
    ("echo mine >mine.c", {"mine.c": "mine\n", SOURCE: AFTER}),
    ("git config status.showUntrackedFiles no; echo mine >mine.c", {"mine.c": "mine\n"}),
    (f"echo mine >{SOURCE}; git commit -q -a -m mine; echo more >mine.c", {SOURCE: "mine\n", "mine.c": "more\n"}),
    (COMMIT_ON_QUEUE, {SOURCE: "mine\n"}),
    ("git commit -q --amend -m mine", {SOURCE: AFTER}),
]


@pytest.mark.parametrize(("work", "files"), WORK)
def test_the_user_s_work_stays_and_is_set_aside_when_the_queue_has_changed(
    target: Target, tmp_path: Path, work: str, files: dict[str, str]
) -> None:
    tree = make(target, tmp_path)
    assert snapshot(tree) == tree.series
    shell(tree.path, work)
    before = state(tree.path)
    taken = snapshot(tree)
    assert snapshot(tree) == taken
    there = {SOURCE: AFTER} if work == COMMIT_ON_QUEUE else files  # what is checked out counts, not the branch
    assert {path: git(tree.path, "show", f"{taken}:{path}") for path in there} == there
    assert (taken == tree.series) == (there == {SOURCE: AFTER})
    assert make(target, tmp_path) == tree
    assert state(tree.path) == before
    assert kept(tree.path) == []
    change_patch(target)
    assert (make(target, tmp_path).path / SOURCE).read_text() == "int version = 23;\n"
    assert git(tree.path, "status", "--porcelain", "--untracked-files=all") == ""
    [ref] = kept(tree.path)
    assert {path: git(tree.path, "show", f"{ref}:{path}") for path in files} == files


REBASE = f"echo mine >{SOURCE}; GIT_SEQUENCE_EDITOR='echo break >>' git rebase -q -i --autostash base"


@pytest.mark.parametrize("work", [REBASE, "git bisect start", "git checkout -q base"])
def test_what_is_not_finished_stays_and_does_not_stop_a_new_queue(target: Target, tmp_path: Path, work: str) -> None:
    tree = make(target, tmp_path)
    shell(tree.path, work)
    before = state(tree.path)
    assert make(target, tmp_path) == tree
    assert state(tree.path) == before
    change_patch(target)
    assert (make(target, tmp_path).path / SOURCE).read_text() == "int version = 23;\n"
    assert kept(tree.path) == []
    assert work != REBASE or "mine" in git(tree.path, "stash", "show", "-p")


def state(tree: Path) -> tuple[str, ...]:
    """The refs, the index and the files of a tree."""
    status = git(tree, "status", "--porcelain", "--untracked-files=all")
    return git(tree, "show-ref", "--head"), git(tree, "ls-files", "-s"), status, git(tree, "diff")


def test_commits_of_head_and_of_the_branch_are_both_set_aside(target: Target, tmp_path: Path) -> None:
    tree = make(target, tmp_path).path
    shell(tree, f"{COMMIT_ON_QUEUE}; echo elsewhere >{SOURCE}; git commit -q -a -m elsewhere")
    change_patch(target)
    make(target, tmp_path)
    assert {git(tree, "show", f"{ref}:{SOURCE}") for ref in kept(tree)} == {"mine\n", "elsewhere\n"}


def test_an_interrupted_application_is_redone(target: Target, tmp_path: Path) -> None:
    before = make(target, tmp_path)
    tree = before.path
    (tree / ".git" / ".complete").unlink()
    git(tree, "checkout", "-q", "-B", "queue", "base")
    (tree / ".git" / "rebase-apply").mkdir()
    (tree / SOURCE).write_text("half\n")
    assert make(target, tmp_path) == before
    assert (tree / SOURCE).read_text() == AFTER
    assert git(tree, "status", "--porcelain") == ""


def test_a_tree_of_few_files_has_the_others_too(target: Target, tmp_path: Path) -> None:
    other = "drivers/md/dm-other.c"
    linux = kernel_tree(tmp_path / "linux")
    (linux / other).write_text("int other;\n")
    tree = apply_series(target, prepare_base(target, git_tree(linux, None)))
    assert (tree.path / "Makefile").exists()
    assert not (tree.path / other).exists()
    assert snapshot(tree) == tree.series
    (tree.path / "drivers/md").mkdir(parents=True, exist_ok=True)
    (tree.path / "drivers/md/new.c").write_text("int new;\n")
    assert git(tree.path, "diff", "--name-only", "series", snapshot(tree)) == "drivers/md/new.c\n"
    assert (check_out_all(tree).path / other).read_text() == "int other;\n"
