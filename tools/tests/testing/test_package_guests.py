"""testing/package_guests.py: what counts as a result, which kernel a boot loader would take, who answers MokManager."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.testing.package_guests import SECURE_BOOT, Boot, judge, newest, set_secure_boot

LISTING = "/2/040755/0/0/./4096/\n" + "".join(
    f"/12/100644/0/0/{name}/1/\n"
    for name in ("vmlinuz-6.12.9", "initrd.img-6.12.9", "vmlinuz-6.12.118", "initrd.img-6.12.118", "vmlinuz-7.3.4")
)


@pytest.mark.parametrize(
    ("steps", "said", "counts"),
    [
        ("patched", "begin of patched\nok: a\nend of patched\n", (1, 0)),
        ("patched", "begin of patched\r\nok: a\r\nnot ok: b\r\nend of patched\r\n", (1, 1)),
        ("patched remove", "begin of patched\nok: a\nend of patched\n", (1, 1)),
        ("patched", "begin of patched\nend of patched\n", (0, 1)),
        ("patched", "begin of patched\nbegin of patched\nok: a\nend of patched\n", (1, 1)),
        ("cut_placed", "begin of cut_placed\nok: a\n", (2, 0)),
        ("patched cut_placed", "begin of patched\nok: a\nend of patched\nbegin of cut_placed\n", (2, 0)),
        ("cut_placed", "begin of cut_placed\nok: a\nend of cut_placed\n", (1, 1)),
        ("cut_placed", "begin of cut_placed\nok: a\nend of this boot\n", (1, 1)),
        ("cut_placed", "", (0, 1)),
        ("patched", "", (0, 1)),
    ],
)
def test_a_step_has_to_come_to_its_end(steps: str, said: str, counts: tuple[int, int]) -> None:
    assert judge("a test", Boot(steps), said, "sysrq: Resetting\n") == Counts(*counts, 0)


@pytest.mark.parametrize(
    ("said", "console", "closed"),
    [
        ("BdsDxe: starting\n", "Loading of module with unavailable key is rejected\nreboot\n", True),
        ("BdsDxe: starting\n", "dracut: nothing of a key\n", False),
        ("begin of locked_out\n", "Loading of module with unavailable key is rejected\n", False),
        ("end of this boot\n", "Loading of module with unavailable key is rejected\n", False),
    ],
)
def test_a_root_stays_closed_when_the_kernel_rejects_the_module(said: str, console: str, closed: bool) -> None:
    assert (judge("a test", Boot("locked_out"), said, console).failed == 0) is closed


def test_skips_of_a_kselftest_are_no_case() -> None:
    kselftest = "TAP version 13\n1..3\n# skipped: needs null_blk\nok 1 a # SKIP\nok 2 b\nnot ok 3 c\n"
    said = f"begin of kselftests\n{kselftest}\nnot ok: kselftest table\nend of kselftests\n"
    assert judge("a test", Boot("kselftests"), said, "") == Counts(1, 2, 1)


def test_an_incomplete_kselftest_has_failed() -> None:
    said = "begin of kselftests\nTAP version 13\n1..3\nok 1 a\n\nok: kselftest table\nend of kselftests\n"
    assert judge("a test", Boot("kselftests"), said, "") == Counts(2, 1, 0)


def test_a_panic_is_no_power_cut() -> None:
    assert judge("a test", Boot("cut_placed"), "begin of cut_placed\n", "Kernel panic\n") == Counts(0, 1, 0)


def test_the_newest_kernel_with_an_initramfs_is_started() -> None:
    assert newest(LISTING, "") == "6.12.118"
    with pytest.raises(UserError):
        newest(LISTING, "7.3")


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
