"""dmcrypt-advise --measure: the statistics, the mappings, and what is not measured."""

from __future__ import annotations

import os
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
from dmcrypt_advise import command, looking, measuring
from dmcrypt_advise.mappings import FLAGS, READ, WRITE
from dmcrypt_advise.measuring import ROUNDS, WORKLOADS, Throughput
from machines import machine


def rounds(ratios: list[float]) -> list[tuple[Throughput, Throughput]]:
    """Rounds in which the flag multiplies the throughput by these ratios."""
    return [(Throughput(100, 20, 1.0), Throughput(100 * ratio, 30, 0.5)) for ratio in ratios]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.2] * 8 + [0.5], "faster"),
        ([1.2] * 7 + [0.9] * 2, "cannot tell"),
        ([0.8] * 8 + [1.5], "slower"),
        ([1.0] * 9, "cannot tell"),
    ],
)
def test_the_verdict_follows_the_interval(ratios: list[float], verdict: str) -> None:
    assert len(ratios) == ROUNDS
    lines = measuring.result_line(WORKLOADS[0], rounds(ratios)).splitlines()
    assert lines[1].endswith(f"with no_read_workqueue: {verdict}")
    assert max(map(len, lines)) <= 80


def test_the_disk_is_only_read_and_writes_go_to_a_ram_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[list[str], str]] = []
    monkeypatch.setattr(measuring, "_run", lambda argv, given="": calls.append((argv, given)))
    [found] = looking.look(machine("debian-12-laptop", tmp_path)).mappings
    with ExitStack() as stack:
        monkeypatch.setattr(measuring, "_ram_disk", lambda: nullcontext("/dev/ram0"))
        made = measuring._devices(stack, found, frozenset(FLAGS), lambda _: None)
    created = [("--readonly" in argv, given.split()) for argv, given in calls if argv[:2] == ["dmsetup", "create"]]
    assert [len(names) for names in made.values()] == [2, 2]
    assert [(read_only, words[6], words[-1] if words[8] != "0" else "") for read_only, words in created] == [
        (True, "259:3", ""),
        (True, "259:3", READ),
        (False, "/dev/ram0", ""),
        (False, "/dev/ram0", WRITE),
    ]
    assert len({words[4] for _, words in created}) == 1
    assert sum(argv[1] == "remove" for argv, _ in calls) == 4


DMSETUP = """#!/bin/sh
echo "dmsetup $*" >>{log}
[ "$1" = remove ] || kill -INT $PPID
"""
MODPROBE = """#!/bin/sh
echo "modprobe $*" >>{log}
[ "$1" != -r ] || [ "$(grep -c 'modprobe -r' {log})" -gt 2 ]
"""


def test_an_interrupt_while_a_mapping_is_created_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    for name, text in (("dmsetup", DMSETUP), ("modprobe", MODPROBE)):
        program = tmp_path / name
        program.write_text(text.format(log=log))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(measuring, "RAM_DISK", tmp_path / "ram0")
    monkeypatch.setattr(measuring, "PAUSE", 0.01)
    system = machine("debian-12-laptop", tmp_path / "machine", {"6.1.119-1": "6.17.1-1"})
    with pytest.raises(KeyboardInterrupt):
        measuring.compare_flags(system, "nvme0n1p3_crypt", 1, lambda _: None)
    calls = [line.split() for line in log.read_text().splitlines()]
    created = {call[-1] for call in calls if call[:2] == ["dmsetup", "create"]}
    removed = {call[-1] for call in calls if call[:2] == ["dmsetup", "remove"]}
    assert created == removed != set()
    assert [call for call in calls if call[0] == "modprobe"][1:] == [["modprobe", "-r", "brd"]] * 3


def test_the_interval_excludes_one_round_at_each_end() -> None:
    assert measuring.interval([5, 1, 2, 3, 4, 9, 6, 7, 8]) == (5, 2, 8)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"1 allow_discards": "1 integrity:32:aead"}, "integrity tags"),
        ({"aes-xts-plain64": "aes-cbc-eboiv", "6.1.119-1": "7.3.4-1"}, "unsafe on this kernel"),
        (
            {"aes-xts-plain64": "aes-cbc-eboiv", "queue/rotational <==\n0": "queue/rotational <==\n1"},
            "unsafe on this kernel",
        ),
        ({"aes-xts-plain64": "aes-cbc-eboiv", "luksDump /dev/nvme0n1p3": "other"}, "unsafe on this kernel"),
        ({"v1.24.0": "v1.21.0"}, "cannot be measured"),
        ({"nvme0n1p3_crypt": "other"}, "no open dm-crypt mapping"),
    ],
)
def test_unsafe_flags_are_not_measured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changed: dict[str, str],
    why: str,
) -> None:
    monkeypatch.setattr(measuring, "_run", lambda *_: pytest.fail("a program was run"))
    system = machine("debian-12-laptop", tmp_path, changed)
    assert command.run_command(measure="nvme0n1p3_crypt", system=system) == 2
    assert why in capsys.readouterr().err
