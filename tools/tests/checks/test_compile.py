"""checks/linux.py: what compiler, sparse and the object say of each patch, with a Makefile in the kernel's place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import SOURCE, committed, make_queue

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Failed, Queue
from dmcrypt_inline.kernels.build import HOST, USER_MODE, Prepared

BASE = "int version = 21;\n"
SERIES = "int version = 22;\n"
# It says what lines of the source ask it to; SPARSE is what it makes of the probe.
KERNEL = """\
%.o:
	@gcc -x c -w -D__user= -c -o $(M)/$*.o $(M)/$*.c
	@! grep -q sparse_probe $(M)/$*.c || echo '$(SPARSE)'
	@sed -n 's/^.*SAYS: //p' $(M)/$*.c
"""
REPORTS = "$(M)/dm-crypt.c:2:91: warning: incorrect type in return expression (different address spaces)"
DIVIDES = "unsigned long {0}(void);\nunsigned long divide(void) {{ return {0}(); }}\n"
WARNS = "// SAYS: dm-crypt.c:{}:3: warning: no good\n"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setattr(linux, "prepare_kernel", lambda *_: Prepared(tmp_path, tmp_path, "", HOST))
    kernel(tmp_path, REPORTS)
    return make_queue(tmp_path)


def kernel(place: Path, sparse: str, always: str = "") -> None:
    (place / "Makefile").write_text(f"SPARSE = {sparse}\n{always}{KERNEL}")


def driver(queue: Queue, base: str, series: str) -> Queue:
    """The queue with these drivers before and after its one patch."""
    before = committed(queue, SOURCE, base).applied().series
    made = replace(committed(queue, SOURCE, series).applied(), base=before)
    return replace(queue, tree=made, exact=made)


def judge(queue: Queue) -> None:
    """Both checks that compile agree on a queue of one patch; the verdict is the latter's."""
    try:
        linux._builds(queue, "fast")
    except Failed:
        with pytest.raises(Failed):
            linux._each_builds(queue, "fast")
        raise
    linux._each_builds(queue, "fast")


def test_a_clean_queue_passes(queue: Queue) -> None:
    judge(driver(queue, BASE, SERIES + DIVIDES.format("__aeabi_uidivmod")))  # a division that every kernel has


def test_a_warning_is_of_the_patch_that_brings_it(queue: Queue) -> None:
    found = driver(queue, BASE, SERIES + WARNS.format(2))
    with pytest.raises(Failed) as caught:
        linux._each_builds(found, "fast")
    assert str(caught.value) == "0001-dm-crypt-bump-the-version.patch: dm-crypt.c: warning: no good"
    with pytest.raises(Failed, match=r"the whole queue: dm-crypt\.c: warning: no good"):
        linux._builds(found, "fast")


def test_what_the_base_says_is_not_the_queue_s(queue: Queue) -> None:
    judge(driver(queue, BASE + WARNS.format(2), SERIES + WARNS.format(3)))


def test_a_second_warning_of_the_same_words_is_new(queue: Queue) -> None:
    with pytest.raises(Failed, match="no good"):
        judge(driver(queue, BASE + WARNS.format(2), SERIES + WARNS.format(2) + WARNS.format(3)))


def test_the_patch_that_does_not_compile_is_named(queue: Queue) -> None:
    with pytest.raises(Failed, match=r"^0001-dm-crypt-bump-the-version\.patch: it does not build\n") as caught:
        linux._each_builds(driver(queue, BASE, "int int;\n"), "fast")
    assert "gcc" in str(caught.value) or "error" in str(caught.value)


def test_a_tree_that_refuses_sparse_fails(queue: Queue, tmp_path: Path) -> None:
    why = "C=2 specified, but sparse is not available or not up to date"
    kernel(tmp_path, REPORTS, f"$(warning {why})\n")
    with pytest.raises(Failed, match=why):
        judge(driver(queue, BASE, SERIES))


@pytest.mark.parametrize("said", ["", "header.h: error: Expected"])
def test_a_sparse_that_reports_nothing_fails(queue: Queue, tmp_path: Path, said: str) -> None:
    kernel(tmp_path, said)
    with pytest.raises(Failed, match="sparse does not report") as caught:
        judge(driver(queue, BASE, SERIES))
    assert said in str(caught.value)


def test_the_probe_hides_no_defect_of_its_kind(queue: Queue) -> None:
    with pytest.raises(Failed, match="different address spaces"):
        judge(driver(queue, BASE, f"{SERIES}// SAYS: {REPORTS.replace('$(M)/', '')}\n"))


def test_a_file_that_is_not_built_is_named(queue: Queue) -> None:
    with pytest.raises(Failed, match=r"it changes else\.awk, which this check does not build"):
        linux._each_builds(committed(queue, "else.awk", "int x;\n"), "fast")


def test_a_file_beside_the_driver_is_compiled(queue: Queue) -> None:
    path = "drivers/md/dm-audit.c"
    before = committed(queue, path, "int x;\n").applied().series
    tree = committed(queue, path, "// SAYS: dm-audit.c:1:1: warning: no good\n").applied()
    with pytest.raises(Failed) as caught:
        linux._each_builds(replace(queue, tree=replace(tree, base=before)), "fast")
    assert str(caught.value) == "0001-dm-crypt-bump-the-version.patch: dm-audit.c: warning: no good"


def test_a_changed_header_is_compiled_with_what_the_queue_changes(queue: Queue) -> None:
    before = committed(queue, SOURCE, BASE)
    after = committed(committed(before, SOURCE, BASE + WARNS.format(2)), "include/x.h", "int x;\n").applied()
    with pytest.raises(Failed, match="no good"):
        linux._each_builds(replace(queue, tree=replace(after, base=before.applied().series)), "fast")


def test_what_is_for_another_processor_is_left_to_its_kernels(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = committed(queue, "lib/x86/fast.c", "int int;\n")
    with pytest.raises(Failed, match="it does not build"):
        linux._each_builds(found, "fast")
    monkeypatch.setattr(linux, "prepare_kernel", lambda *_: Prepared(tmp_path, tmp_path, "", USER_MODE))
    linux._each_builds(found, "fast")


@pytest.mark.parametrize("name", ["__udivdi3", "__udivmoddi4", "__aeabi_ldivmod"])
def test_a_division_that_no_kernel_has_fails(queue: Queue, name: str) -> None:
    with pytest.raises(Failed, match=f"it calls {name}, which no kernel has"):
        judge(driver(queue, BASE, SERIES + DIVIDES.format(name)))
