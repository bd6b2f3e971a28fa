"""What each sub-command does: the stages in their order."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import demo as demo_stage
from . import guest_tests
from .base import prepare_base
from .build import Kernel, Module, build_kernel, build_module
from .check import check
from .errors import UserError
from .gitrepo import git
from .host import ensure_packages, python_env
from .paths import log_dir
from .progress import say, step
from .results import Counts
from .run import run
from .series import Tree, apply_series
from .targets import TOOLS, get_target

WRONG = TOOLS / "tests" / "wrong"


def _tree(target_name: str, linux: Path | None) -> Tree:
    ensure_packages("base")
    target = get_target(target_name)
    return apply_series(target, prepare_base(target, linux))


def _variant(tree: Tree, kernel: Kernel, name: str, patch: Path | None = None) -> Module:
    """dm-crypt of the tag base, or of the series with `patch` on top; UserError when that does not apply."""
    log = log_dir(tree.target.name) / "variants.log"
    commit = "base" if name == "base" else "series"
    with tempfile.TemporaryDirectory(prefix="dmcrypt-inline-") as place:
        source = Path(place) / tree.target.source
        source.parent.mkdir(parents=True)
        source.write_text(git(tree.path, "show", f"{commit}:{tree.target.source}", log=log).output)
        if patch is not None:
            git(Path(place), "init", "-q", log=log)  # else git apply looks for a repository further up
            git(Path(place), "apply", patch, log=log)
        return build_module(kernel, source, name)


def _variants(tree: Tree, kernel: Kernel, wrong: bool) -> dict[str, Module]:
    """Variant name -> module: base, series and, when `wrong`, those that the tests must catch."""
    variants = {name: _variant(tree, kernel, name) for name in ("base", "series")}
    if wrong:
        for patch in sorted(WRONG.glob("*.patch")):
            variants[patch.stem] = _variant(tree, kernel, patch.stem, patch)
    return variants


def tree(target_name: str, linux: Path | None, _accel: str | None) -> int:
    """Make build/<target>/tree and say where it is."""
    made = _tree(target_name, linux)
    say(
        f"{made.path}: base {made.base[:12]} from {made.origin}; series {made.series[:12]}, {len(made.commits)} patches"
    )
    return 0


def demo(target_name: str, linux: Path | None, accel: str | None) -> int:
    """The whole way on the fast kernel; the exit status is the demo's."""
    get_target(target_name)
    ensure_packages("base", "build", "guest")
    python_env()
    made = _tree(target_name, linux)
    kernel = build_kernel(made, "fast")
    return demo_stage.run(made, kernel, _variants(made, kernel, wrong=False), accel)


def _check(target_name: str, linux: Path | None) -> Counts:
    target = get_target(target_name)
    ensure_packages("base", "build", "check")
    env = python_env()
    return check(target, prepare_base(target, linux), env)


def check_only(target_name: str, linux: Path | None, _accel: str | None) -> int:
    """The checks that need no guest; status 1 when one failed."""
    return _close(_check(target_name, linux))


def test(target_name: str, linux: Path | None, accel: str | None) -> int:
    """Checks, the tools' tests, and the guest tests on the debug kernel; status 1 when anything failed."""
    get_target(target_name)
    ensure_packages("base", "build", "check", "guest")
    parts: tuple[tuple[str, Callable[[], Counts]], ...] = (  # cheapest first: a mistake shows in seconds
        ("tools_tests", lambda: _pytest(target_name)),
        ("checks", lambda: _check(target_name, linux)),
        ("guest_tests", lambda: _guest_tests(target_name, linux, accel)),
    )
    passed = failed = skipped = 0
    for name, part in parts:
        try:
            counts = part()
        except UserError as error:  # the other parts still say what they find
            say(f"not ok {name}_can_run\n{error}")
            counts = Counts(0, 1, 0)
        passed, failed, skipped = passed + counts.passed, failed + counts.failed, skipped + counts.skipped
    return _close(Counts(passed, failed, skipped))


def _guest_tests(target_name: str, linux: Path | None, accel: str | None) -> Counts:
    made = _tree(target_name, linux)
    kernel = build_kernel(made, "debug")
    return guest_tests.run(made, kernel, _variants(made, kernel, wrong=True), accel)


def _pytest(target_name: str) -> Counts:
    """The tools' own tests."""
    log = log_dir(target_name) / "pytest.log"
    with step("running the tools' own tests", log):
        python = python_env() / "bin" / "python"
        done = run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", TOOLS / "tests"],
            log=log,
            timeout=600,
            cwd=TOOLS,
            check=False,
        )
    counts = pytest_counts(done.output)
    if done.returncode != 0 or counts.failed:
        say(done.output)
    if done.returncode != 0 and not counts.failed:  # it could not even collect
        counts = Counts(counts.passed, 1, counts.skipped)
    say(f"the tools' own tests: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return counts


def pytest_counts(output: str) -> Counts:
    """Passed, failed and skipped from pytest's last line; an error counts as failed."""
    lines = output.strip().splitlines()
    found = re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", lines[-1] if lines else "")
    number = {word.rstrip("s") if word.startswith("error") else word: int(count) for count, word in found}
    return Counts(number.get("passed", 0), number.get("failed", 0) + number.get("error", 0), number.get("skipped", 0))


def _close(counts: Counts) -> int:
    say(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


COMMANDS: dict[str, Callable[[str, Path | None, str | None], int]] = {
    "tree": tree,
    "check": check_only,
    "test": test,
    "demo": demo,
}
