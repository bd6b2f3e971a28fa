"""commands/queue.py: the sub-commands that maintain a queue, as far as their stages are not tested by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from small import SOURCE, git, kernel_tree, make_target

from dmcrypt_inline.commands import queue
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import selftests
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.refresh import write_back
from dmcrypt_inline.trees.series import Tree, apply_series
from dmcrypt_inline.trees.targets import Target


@dataclass(frozen=True)
class Here(Request):
    """A request for a target of ours, on a base of ours."""

    place: Path = Path()

    def tree(self, target: Target) -> Tree:
        return apply_series(target, prepare_base(target, self.place))


@pytest.mark.parametrize("own", [{}, {"LINUX": Path("a"), "CRYPTSETUP": Path("b")}])
def test_am_wants_one_tree(own: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="onto which tree"):
        queue.am(Request(None, own))


def test_the_tree_may_be_edited_after_refresh_selftests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "selftests"
    directory.mkdir()
    (directory / "Makefile").write_text("all:\n")
    monkeypatch.setattr(selftests, "SELFTESTS", directory)
    target = make_target(tmp_path)
    monkeypatch.setattr("dmcrypt_inline.commands.request.TARGETS", {target.name: target})
    request = Here(place=kernel_tree(tmp_path / "linux"))
    tree = request.tree(target).path
    in_tree = tree / selftests.IN_TREE / "Makefile"
    in_tree.parent.mkdir(parents=True)
    in_tree.write_text("all:\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "selftests: add tests\n\nBecause.")
    write_back(target, prepare_base(target, request.place))
    (directory / "Makefile").write_text("all: tests\n")
    assert queue.refresh_selftests(request) == 0
    assert in_tree.read_text() == "all: tests\n"
    (tree / SOURCE).write_text("int version = 23;\n")
    git(tree, "commit", "-q", "-a", "-m", "dm crypt: bump it twice\n\nBecause.")
    write_back(target, prepare_base(target, request.place))
    assert "int version = 23;" in git(tree, "show", f"series:{SOURCE}")
