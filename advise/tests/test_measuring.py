"""dmcrypt-advise --measure: the statistics, the mappings, and what is not measured."""

from __future__ import annotations

import multiprocessing
import os
import re
from pathlib import Path

import pytest
from dmcrypt_advise import measuring
from dmcrypt_advise.errors import AdviseError
from dmcrypt_advise.mappings import READ, WRITE
from dmcrypt_advise.measuring import ROUNDS, WORKLOADS, Throughput
from machines import machine

EBOIV = {"aes-xts-plain64": "aes-cbc-eboiv"}


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
    rounds = [(Throughput(100, 20, 1.0), Throughput(100 * ratio, 30, 0.5)) for ratio in ratios]
    assert measuring.result_line(WORKLOADS[0], rounds).endswith(f"with no_read_workqueue: {verdict}")


DMSETUP = """#!/bin/sh
echo "$* $(cat)" >>{log}
[ "$1" = remove ] || kill -INT $PPID
"""
MODPROBE = """#!/bin/sh
echo "modprobe $*" >>{log}
[ "$1" != -r ] || [ "$(grep -c 'modprobe -r' {log})" -gt 2 ]
"""
TABLE = re.compile(r"create (--readonly )?(\S+) 0 \d+ crypt aes-xts-plain64 (\w+) 0 (\S+) \d+ \d+ ?(.*)")


def test_an_interrupted_measurement_removes_its_mappings_and_only_reads_the_disk(
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

    def measure() -> None:
        with pytest.raises(KeyboardInterrupt):
            measuring.compare_flags(system, "nvme0n1p3_crypt", 1, lambda _: None)

    # A process of its own, as pytest's may have other threads, which get the signal that the main one blocks.
    process = multiprocessing.get_context("fork").Process(target=measure)
    process.start()
    process.join()
    assert process.exitcode == 0
    calls = log.read_text()
    created = TABLE.findall(calls)
    assert [(read_only, device, flags) for read_only, _, _, device, flags in created] == [
        ("--readonly ", "259:3", ""),
        ("--readonly ", "259:3", READ),
        ("", str(tmp_path / "ram0"), ""),
        ("", str(tmp_path / "ram0"), WRITE),
    ]
    assert len({key for _, _, key, _, _ in created}) == 1
    assert set(re.findall(r"remove --retry (\S+)", calls)) == {name for _, name, _, _, _ in created}
    assert calls.count("modprobe -r brd") == 3


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"1 allow_discards": "1 integrity:32:aead"}, "integrity tags"),
        (EBOIV | {"6.1.119-1": "7.3.4-1"}, "unsafe on this kernel"),
        (EBOIV | {"queue/rotational <==\n0": "queue/rotational <==\n1"}, "unsafe on this kernel"),
        (EBOIV | {"luksDump /dev/nvme0n1p3": "other"}, "unsafe on this kernel"),
        ({"v1.24.0": "v1.21.0"}, "cannot be measured"),
        ({"nvme0n1p3_crypt": "other"}, "no open dm-crypt mapping"),
    ],
)
def test_unsafe_flags_are_not_measured(tmp_path: Path, changed: dict[str, str], why: str) -> None:
    system = machine("debian-12-laptop", tmp_path, changed)
    with pytest.raises(AdviseError, match=why):
        measuring.compare_flags(system, "nvme0n1p3_crypt", 1, lambda _: None)
