"""commands/queue.py: the order of the stages that maintain a queue."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import SOURCE, git, git_tree, make_target, shell

from dmcrypt_inline.commands import queue
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.trees import selftests
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.refresh import write_back
from dmcrypt_inline.trees.series import apply_series, check_out_all


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
