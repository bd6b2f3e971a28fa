"""testing/package_guests.py: what counts as a result, which kernel a boot loader would take, who answers MokManager."""

from pathlib import Path

import pytest

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.testing.package_guests import SECURE_BOOT, Boot, judge_boot, newest_kernel, set_secure_boot

LISTING = "/2/040755/0/0/./4096/\n" + "".join(
    f"/12/100644/0/0/{name}/1/\n"
    for name in ("vmlinuz-6.12.9", "initrd.img-6.12.9", "vmlinuz-6.12.118", "initrd.img-6.12.118", "vmlinuz-7.3.4")
)


KSELFTEST = "TAP version 13\n1..3\n# skipped: needs null_blk\nok 1 a # SKIP\nok 2 b\nnot ok 3 c\n"
INCOMPLETE = "TAP version 13\n1..3\nok 1 a\n"
RESET = "sysrq: Resetting\n"
REJECTS = "Loading of module with unavailable key is rejected\nreboot\n"


@pytest.mark.parametrize(
    ("steps", "said", "console", "counts"),
    [
        ("patched", "begin of patched\nok: a\nend of patched\n", "", (1, 0, 0)),
        ("patched", "begin of patched\r\nok: a\r\nnot ok: b\r\nend of patched\r\n", "", (1, 1, 0)),
        # A step has to come to its end once, with a case.
        ("patched remove", "begin of patched\nok: a\nend of patched\n", "", (1, 1, 0)),
        ("patched", "begin of patched\nend of patched\n", "", (0, 1, 0)),
        ("patched", "begin of patched\nbegin of patched\nok: a\nend of patched\n", "", (1, 1, 0)),
        ("patched", "", "", (0, 1, 0)),
        # The power cut has to come before the end of the step, and a panic is none.
        ("cut_placed", "begin of cut_placed\nok: a\n", RESET, (2, 0, 0)),
        ("patched cut_placed", "begin of patched\nok: a\nend of patched\nbegin of cut_placed\n", RESET, (2, 0, 0)),
        ("cut_placed", "begin of cut_placed\nok: a\nend of cut_placed\n", RESET, (1, 1, 0)),
        ("cut_placed", "begin of cut_placed\nok: a\nend of this boot\n", RESET, (1, 1, 0)),
        ("cut_placed", "", RESET, (0, 1, 0)),
        ("cut_placed", "begin of cut_placed\n", "Kernel panic\n", (0, 1, 0)),
        # The root stays closed only where the kernel rejects the module.
        ("locked_out", "BdsDxe: starting\n", REJECTS, (1, 0, 0)),
        ("locked_out", "BdsDxe: starting\n", "dracut: nothing of a key\n", (0, 1, 0)),
        ("locked_out", "begin of locked_out\n", REJECTS, (0, 1, 0)),
        ("locked_out", "end of this boot\n", REJECTS, (0, 1, 0)),
        # The cases of a kselftest count.
        ("kselftests", f"begin of kselftests\n{KSELFTEST}not ok: table\nend of kselftests\n", "", (1, 2, 1)),
        ("kselftests", f"begin of kselftests\n{INCOMPLETE}ok: table\nend of kselftests\n", "", (2, 1, 0)),
    ],
)
def test_the_cases_of_a_boot(steps: str, said: str, console: str, counts: tuple[int, int, int]) -> None:
    assert judge_boot("a test", Boot(steps), said, console) == Counts(*counts)


def test_the_newest_kernel_with_an_initramfs_is_started() -> None:
    assert newest_kernel(LISTING, "") == "6.12.118"
    with pytest.raises(UserError):
        newest_kernel(LISTING, "7.3")


@pytest.mark.parametrize("on", [False, True])
def test_secure_boot_is_turned_on_and_off(tmp_path: Path, on: bool) -> None:
    variables = tmp_path / "variables"
    variables.write_bytes(b"a" + SECURE_BOOT + b"\x07z")
    set_secure_boot(variables, on)
    assert variables.read_bytes() == b"a" + SECURE_BOOT + bytes([on]) + b"z"
    for other in (b"no such variable", SECURE_BOOT):
        variables.write_bytes(other)
        with pytest.raises(UserError):
            set_secure_boot(variables, on)
