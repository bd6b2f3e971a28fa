"""guest_run.py: what is asked for, before anything is built or measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from guests import stand_in
from small import SOURCE, git, git_tree, make_target

from dmcrypt_inline.bench import guest_run
from dmcrypt_inline.bench.guest_run import named_variants, steps
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.guests.guest import run_guest
from dmcrypt_inline.kernels.build import Kernel
from dmcrypt_inline.trees.series import Tree


def test_the_queue_s_patches_one_by_one(tmp_path: Path) -> None:
    tree = git_tree(tmp_path / "tree", "base")
    commits = []
    for name, text in ((SOURCE, "1"), ("README", "a"), (SOURCE, "2"), (SOURCE, "3"), ("README", "b")):
        (tree / name).write_text(text)
        git(tree, "add", name)
        git(tree, "commit", "-q", "-m", "more")
        commits.append(git(tree, "rev-parse", "HEAD").strip())
    (tmp_path / "queue").mkdir()
    made = Tree(make_target(tmp_path / "queue"), tree, "base", commits[-1], tuple(commits), "", "a test")
    # The second and fifth change something else; the fourth is the series.
    assert steps(made) == {"patch-01": commits[0], "patch-03": commits[2]}


def test_variants_by_name(tmp_path: Path) -> None:
    module, source = tmp_path / "dm-crypt.ko", tmp_path / "released.c"
    for path in (module, source):
        path.write_text("")
    words = [f"mine={module}", "each", f"released={source}"]
    assert named_variants(words) == ({"mine": module, "released": source}, True)
    for word, why in (
        ("mine", "neither NAME="),
        (f"../x={module}", "neither NAME="),
        (f"mine={tmp_path / 'dm-crypt.o'}", "neither NAME="),
        (f"series={module}", "is taken"),
        (f"patch-03={module}", "is taken"),
        ("mine=/nowhere/dm-crypt.ko", "there is no file"),
    ):
        with pytest.raises(UserError, match=why):
            named_variants([word])


def test_what_a_guest_gets_is_all_that_the_measuring_program_imports(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {f"tools/dmcrypt_inline/{name}": guest_run.PACKAGE / name for name in guest_run.IN_GUEST}
    stand_in(monkeypatch, tmp_path, 'echo 0 >"$SHARE/status"')
    run_guest(kernel, "bench.sh", name="bench", out=tmp_path / "out", accel="tcg", timeout=20.0, inputs=inputs)
    copied = tmp_path / "out" / "share" / "input" / "tools"
    script = (
        f"import importlib, sys; from pathlib import Path; sys.path.insert(0, {str(copied)!r})\n"
        f"for module in Path({str(copied)!r}).rglob('*.py'):\n"
        f"    importlib.import_module('.'.join(module.relative_to({str(copied)!r}).with_suffix('').parts))\n"
    )
    # -I and -S: nothing but the standard library and what was copied.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
