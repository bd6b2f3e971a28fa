import json
from pathlib import Path

import pytest

from dmcrypt_inline.guests.kernel_log import find_warnings

CONSOLES = sorted((Path(__file__).parent / "consoles").glob("*.txt"))


@pytest.mark.parametrize("console", CONSOLES, ids=lambda path: path.stem)
def test_finds_the_warnings_of_a_console(console: Path) -> None:
    found = [{"line": c.line, "kind": c.kind, "first": c.first} for c in find_warnings(console.read_text())]
    assert found == json.loads(console.with_suffix(".json").read_text())


@pytest.mark.parametrize(
    ("kind", "headline"),
    [
        ("UBSAN", "UBSAN: shift-out-of-bounds in drivers/md/dm-crypt.c:700:12"),
        ("scheduling while atomic", "BUG: scheduling while atomic: kworker/0:1/12/0x00000202"),
        ("soft lockup", "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [fio:123]"),
        ("workqueue lockup", "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 43s!"),
        ("hung task", "INFO: task fio:123 blocked for more than 60 seconds."),
        ("RCU stall", "rcu: INFO: rcu_sched self-detected stall on CPU"),
        ("lockdep", "WARNING: possible circular locking dependency detected"),
        ("lockdep", "WARNING: suspicious RCU usage"),
        ("lockdep", "BUG: MAX_LOCKDEP_CHAINS too low!"),
        ("debug objects", "ODEBUG: free active (active state 0) object type: work_struct hint: kcryptd_crypt+0x0"),
        ("oops", "kernel BUG at drivers/md/dm-crypt.c:1000!"),
        ("preempt count", "huh, entered softirq 3 NET_RX 0000 with preempt_count 00000101, exited with 00000100?"),
        ("kmemleak", "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)"),
        ("corrupted list", "list_del corruption. prev->next should be ffff8881, but was dead000000000100"),
        ("reference count", "refcount_t: underflow; use-after-free."),
        ("slab", "BUG kmalloc-256 (Tainted: G    B            ): Poison overwritten"),
        ("page allocation", "fio: page allocation failure: order:0, mode:0x800(GFP_NOWAIT)"),
        ("bug", "BUG: Bad page state in process fio  pfn:12345"),
        ("I/O error", "blk_update_request: I/O error, dev nullb0, sector 8 op 0x1:(WRITE) flags 0x0"),
        ("I/O error", "device-mapper: crypt: dm-0: INTEGRITY AEAD ERROR, sector 8"),
    ],
)
def test_knows_the_headline(kind: str, headline: str) -> None:
    for stamp in ("", "[   12.345678] ", "[   12.345678][  T123] ", "[   12.345678][    C0] "):
        [warning] = find_warnings(f"[    0.000000] Linux version\n{stamp}{headline}\n")
        assert (warning.kind, warning.line, warning.first) == (kind, 2, headline)


@pytest.mark.parametrize(
    "line",
    [
        "... MAX_LOCKDEP_SUBCLASSES:  8",
        "rcu: RCU lockdep checking is enabled.",
        "rcu: \tRCU CPU stall warnings timeout set to 60 (rcu_cpu_stall_timeout).",
        "device-mapper: table: 253:0: crypt: Invalid feature arguments",
        "x86/fpu: Enabled xstate features 0x7, context size is 832 bytes",
        "EXT4-fs (dm-0): mounted filesystem with ordered data mode. Opts: (null)",
        "ACPI Error: AE_NOT_FOUND",
    ],
)
def test_is_not_alarmed_by(line: str) -> None:
    assert find_warnings(f"[    1.000000] {line}\n") == ()


def test_expected_lines_are_no_warnings() -> None:
    log = "[    1.0] Buffer I/O error on dev dm-0, logical block 0\n[    1.1] BUG: KASAN: use-after-free in f+0x1/0x2\n"
    assert [c.kind for c in find_warnings(log, expected=(r"Buffer I/O error on dev dm-\d+",))] == ["KASAN"]
