"""checks/linux.py, with a Makefile and a checkpatch of a few lines in place of the kernel's."""

from dataclasses import replace
from pathlib import Path

import pytest
from small import PATCH, SOURCE, committed, findings, make_queue

from dmcrypt_inline.checks import linux
from dmcrypt_inline.checks.checklist import Queue
from dmcrypt_inline.kernels.build import HOST, USER_MODE, Prepared
from dmcrypt_inline.trees import selftests

BASE = "int version = 21;\n"
SERIES = "int version = 22;\n"
# It prints the diagnostics that the source names; SPARSE is its report of the probe.
KERNEL = """\
%.o:
	@gcc -x c -w -D__user= -c -o $(M)/$*.o $(M)/$*.c
	@! grep -q sparse_probe $(M)/$*.c || echo '$(SPARSE)'
	@sed -n 's/^.*SAYS: //p' $(M)/$*.c
"""
REPORT = "$(M)/dm-crypt.c:2:91: warning: incorrect type in return expression (different address spaces)"
DIVIDES = "unsigned long {0}(void);\nunsigned long divide(void) {{ return {0}(); }}\n"
# Unless this type of message is ignored, it reports one. A script that it calls writes a traceback.
CHECKPATCH = """\
exit 0 if "@ARGV" =~ /--ignore \\S*TYPE/;
print STDERR "Traceback\\n";
print "WARNING:TYPE\\n";
exit 1;
"""
WARNS = "// SAYS: dm-crypt.c:{}:3: warning: no good\n"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setattr(linux, "prepare_kernel", lambda *_: Prepared(tmp_path, tmp_path, "", HOST))
    write_kernel(tmp_path, REPORT)
    return make_queue(tmp_path)


def write_kernel(place: Path, sparse: str) -> None:
    (place / "Makefile").write_text(f"SPARSE = {sparse}\n{KERNEL}")


def changed(queue: Queue, path: str, base: str | None, series: str) -> Queue:
    """The queue with these texts of a file before and after its one patch."""
    before = queue if base is None else committed(queue, path, base)
    after = committed(before, path, series)
    made = replace(after.applied(), base=before.applied().series)
    return replace(after, apply=lambda: made)


def compile_findings(queue: Queue) -> str:
    """The findings of both checks that compile, which must agree on a queue of one patch."""
    complete = findings(lambda: linux._driver_builds(queue, "fast")).replace("the complete queue", PATCH)
    assert complete == findings(lambda: linux._each_builds(queue, "fast"))
    return complete


@pytest.mark.parametrize(
    ("base", "series", "expected"),
    [
        (BASE, SERIES + DIVIDES.format("__aeabi_uidivmod"), ""),  # a division that every kernel has
        (BASE, SERIES + WARNS.format(2), f"{PATCH}: dm-crypt.c: warning: no good"),
        (BASE + WARNS.format(2), SERIES + WARNS.format(3), ""),  # the base's own warning on another line
        (BASE + WARNS.format(2), SERIES + WARNS.format(2) + WARNS.format(3), f"{PATCH}: dm-crypt.c: warning: no good"),
        # The same report as the probe's
        (BASE, f"{SERIES}// SAYS: {REPORT.replace('$(M)/', '')}\n", f"{PATCH}: {linux.REPORTED}"),
    ],
)
def test_new_diagnostics_fail(queue: Queue, base: str, series: str, expected: str) -> None:
    assert compile_findings(changed(queue, SOURCE, base, series)) == expected


@pytest.mark.parametrize("name", ["__udivdi3", "__udivmoddi4", "__aeabi_ldivmod"])
def test_a_division_that_no_kernel_has_fails(queue: Queue, name: str) -> None:
    assert name in compile_findings(changed(queue, SOURCE, BASE, SERIES + DIVIDES.format(name)))


@pytest.mark.parametrize("output", ["no report", "header.h: error: Expected"])
def test_a_sparse_that_reports_nothing_fails(queue: Queue, tmp_path: Path, output: str) -> None:
    write_kernel(tmp_path, output)
    assert compile_findings(changed(queue, SOURCE, BASE, SERIES))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("drivers/md/dm-audit.c", "// SAYS: dm-audit.c:1:1: warning: no good\n"),
        ("include/x.h", "int x;\n"),  # compiles every file that the queue changes
    ],
)
def test_other_files_are_compiled(queue: Queue, path: str, text: str) -> None:
    after = changed(committed(queue, SOURCE, BASE + WARNS.format(2)), path, None, text).applied()
    made = replace(after, base=queue.applied().base)
    assert findings(lambda: linux._each_builds(replace(queue, apply=lambda: made), "fast")).endswith("warning: no good")


def test_user_mode_linux_does_not_compile_x86_files(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = committed(queue, "lib/x86/fast.c", "int int;\n")
    assert findings(lambda: linux._each_builds(broken, "fast")).startswith(f"{PATCH}: ")
    monkeypatch.setattr(linux, "prepare_kernel", lambda *_: Prepared(tmp_path, tmp_path, "", USER_MODE))
    linux._each_builds(broken, "fast")


@pytest.mark.parametrize(
    ("message", "expected"), [("MISSING_SIGN_OFF", ""), ("UNKNOWN_COMMIT_ID", ""), ("LONG_LINE", "WARNING:LONG_LINE")]
)
def test_messages_of_checkpatch_fail(queue: Queue, message: str, expected: str) -> None:
    script = queue.applied().path / "scripts" / "checkpatch.pl"
    script.parent.mkdir()
    script.write_text(CHECKPATCH.replace("TYPE", message))
    assert findings(linux.style_check(queue).call) == (expected and f"{PATCH}:\n{expected}")


def test_a_selftest_that_is_not_in_the_makefile_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftests, "SELFTESTS", tmp_path)
    for name in ("one.sh", "two.sh", "settings"):
        (tmp_path / name).touch()
    (tmp_path / "Makefile").write_text("TEST_PROGS := one.sh\n")
    assert findings(linux._makefile_lists_selftests).split()[0] == "two.sh"
