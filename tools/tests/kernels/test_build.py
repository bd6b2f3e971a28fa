"""build.py: the sources that a kernel is built from."""

from __future__ import annotations

from pathlib import Path

from small import BEFORE, SOURCE, git_tree, make_target

from dmcrypt_inline.kernels import build
from dmcrypt_inline.trees.base import prepare_base
from dmcrypt_inline.trees.series import apply_series


def test_a_driver_that_does_not_build_is_in_no_kernel(tmp_path: Path) -> None:
    target = make_target(tmp_path)
    tree = apply_series(target, prepare_base(target, git_tree(tmp_path / "linux", None)))
    sources = tmp_path / "sources"
    sources.mkdir()
    build._copy_sources(tree, (), sources, tmp_path / "log")
    assert (sources / SOURCE).read_text() == BEFORE
