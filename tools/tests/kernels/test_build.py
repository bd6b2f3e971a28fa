"""build.py: kernels and variants of a tree with the user's edits, with a kernel of a few lines."""

from pathlib import Path

import pytest
from small import AFTER, BEFORE, SOURCE, git, make_target, repository, write_files

from dmcrypt_inline.commands.machines import machine_as_it_stands, make_machine
from dmcrypt_inline.commands.request import Request
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import build_dir, cache_dir, log_dir
from dmcrypt_inline.common.run import CommandError
from dmcrypt_inline.guests.environment import environment
from dmcrypt_inline.guests.machine import Machine
from dmcrypt_inline.kernels.build import build_variant
from dmcrypt_inline.trees.series import Tree
from dmcrypt_inline.trees.targets import TARGETS

# A module is its source, the image a file of block/.
MAKEFILE = """\
modules_prepare:
	cp Makefile $(O)/
bzImage:
	mkdir -p $(O)/arch/x86/boot $(O)/include/config
	cp block/core.c $(O)/arch/x86/boot/bzImage
	echo 5.8.0 >$(O)/include/config/kernel.release
modules: $(patsubst %.c,%.ko,$(wildcard $(M)/drivers/md/*.c $(M)/crypto/*.c))
	[ -z "$(M)" ] || printf '%s\\n' $^ >$(M)/modules.order
%.ko: %.c
	! grep error $<
	cp $< $@ # compiled
"""
MERGE_CONFIG = 'out=$3; shift 3; cat "$@" >"$out/.config"\n'
OTHER, ELSEWHERE = "drivers/md/dm.c", "crypto/cryptd.c"
FILES = {
    SOURCE: BEFORE,
    "Makefile": MAKEFILE,
    "scripts/kconfig/merge_config.sh": MERGE_CONFIG,
    "block/core.c": "core\n",
    OTHER: "mapper\n",
    ELSEWHERE: "daemon\n",
    "drivers/md/dm-builtin.c": "built in\n",
    "drivers/md/dm-core.h": "core\n",
    "drivers/md/Makefile": "",
}
EDITED = "int version = 23;\n"


@pytest.fixture
def request_of_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """A request for the target `small`, whose kernel has the FILES."""
    linux = repository(write_files(tmp_path / "linux", FILES), "v0.1")
    monkeypatch.setitem(TARGETS, "small", make_target(tmp_path, other_sources=(ELSEWHERE,)))
    monkeypatch.setattr("dmcrypt_inline.commands.request.ensure_packages", lambda *_: None)
    monkeypatch.setattr("dmcrypt_inline.kernels.build.TEST_MODULES", tmp_path / "none")
    return Request("small", {"LINUX": linux}, "tcg")


def prepared(request: Request) -> Tree:
    tree = request.tree(request.target())
    git(tree.path, "sparse-checkout", "disable")
    return tree


def built(request: Request, variant: str = "series") -> Machine:
    return machine_as_it_stands(request, variant, "fast")[1]


def compiled(name: str = "series") -> list[str]:
    lines = (log_dir("small") / f"module-{name}-fast.log").read_text().splitlines()
    return [Path(line.split()[1]).stem for line in lines if line.endswith("# compiled")]


def test_an_edit_compiles_one_file(request_of_small: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmcrypt_inline.guests.environment.run", lambda *_, **__: type("Said", (), {"output": ""}))
    tree = prepared(request_of_small)
    first = built(request_of_small)
    assert (first.modules["series"].path.read_text(), first.state) == (AFTER, "committed")
    assert sorted(compiled()) == ["cryptd", "dm", "dm-builtin", "dm-crypt"]
    for number, (path, text) in enumerate(((SOURCE, EDITED), (OTHER, "edited\n"), (ELSEWHERE, "edited\n")), 1):
        (tree.path / path).write_text(text)
        now = built(request_of_small)
        assert now.kernel.key == first.kernel.key
        assert (now.modules["series"].directory / f"{Path(path).stem}.ko").read_text() == text
        assert environment(now, "tcg")["state"] == "uncommitted"
        assert compiled()[4:] == ["dm-crypt", "dm", "cryptd"][:number]
    assert git(tree.path, "status", "--porcelain").split() == ["M", ELSEWHERE, "M", SOURCE, "M", OTHER]
    git(tree.path, "commit", "-q", "-a", "-m", "not refreshed")
    assert built(request_of_small).state == "uncommitted"
    git(tree.path, "reset", "-q", "--hard", tree.series)
    assert built(request_of_small).modules == first.modules
    assert make_machine(request_of_small, tree, "fast", ("base",)).modules["base"].path.read_text() == BEFORE


def test_an_edit_outside_drivers_md_is_built_next_to_the_kernel_of_the_queue(request_of_small: Request) -> None:
    tree = prepared(request_of_small)
    first = built(request_of_small).kernel
    place = build_dir("small") / "edited-fast"
    (tree.path / "block/core.c").write_text("edited\n")
    now = built(request_of_small).kernel
    assert now.image.read_text() == "edited\n"
    assert now.image.is_relative_to(place)
    times = {path: path.stat().st_mtime_ns for path in (place / "source").rglob("*")}
    (tree.path / "block/core.c").write_text("edited again\n")
    assert built(request_of_small).kernel.image.read_text() == "edited again\n"
    changed = [path.name for path, time in times.items() if path.is_file() and path.stat().st_mtime_ns != time]
    assert sorted(changed) == [".index", "core.c"]
    with pytest.raises(UserError):  # never modules for one kernel from the objects of another
        build_variant(now, tree, tree.base, "late")
    git(tree.path, "checkout", "-q", "block")
    assert built(request_of_small).kernel == first


def test_an_interrupted_build_of_edits_is_not_taken_for_the_one_before(request_of_small: Request) -> None:
    tree = prepared(request_of_small)
    first = built(request_of_small).kernel
    (tree.path / "block/core.c").write_text("edited\n")
    assert built(request_of_small).kernel.image.read_text() == "edited\n"
    (tree.path / "Makefile").write_text("bzImage:\n\tfalse\n")
    with pytest.raises(CommandError):
        built(request_of_small)
    git(tree.path, "checkout", "-q", "Makefile")
    makes = log_dir("small") / "kernel-fast.log"
    before = makes.read_text().count("bzImage modules")
    assert built(request_of_small).kernel.image.read_text() == "edited\n"
    assert makes.read_text().count("bzImage modules") == before + 1
    assert first.image.read_text() == "core\n"


def test_a_driver_that_does_not_build_is_in_no_kernel(request_of_small: Request) -> None:
    tree = prepared(request_of_small)
    (tree.path / SOURCE).write_text("error\n")
    with pytest.raises(CommandError):
        built(request_of_small)
    [source] = (cache_dir() / "sources").glob("small-*")
    assert sorted(path.name for path in (source / "drivers/md").iterdir()) == ["Makefile", "dm-builtin.c", "dm-core.h"]
    git(tree.path, "checkout", "-q", SOURCE)
    assert built(request_of_small).modules["series"].path.read_text() == AFTER


def test_other_drivers(request_of_small: Request, tmp_path: Path) -> None:
    tree = prepared(request_of_small)
    driver = tmp_path / "dm-crypt.c"
    driver.write_text("given\n")
    assert built(request_of_small, f"{driver}").modules["given"].path.read_text() == "given\n"
    machine = built(request_of_small, "base")
    assert machine.modules["base"].path.read_text() == BEFORE
    assert compiled("base") == ["dm-crypt"]  # the others are those of the variant before
    patch = next(tree.target.patches.glob("*.patch"))
    assert build_variant(machine.kernel, tree, tree.base, "patched", patch=patch).path.read_text() == AFTER
    more = build_variant(machine.kernel, tree, tree.series, "more", further={"load": "load\n"})
    assert sorted(path.name for path in more.directory.glob("*.ko")) == [
        *("cryptd.ko", "dm-builtin.ko", "dm-crypt.ko", "dm.ko", "load.ko")
    ]
    assert "load" not in {path.stem for path in built(request_of_small).modules["series"].directory.iterdir()}
