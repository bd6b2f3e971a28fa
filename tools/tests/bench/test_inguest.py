"""inguest.py: the program that measures in a guest."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dmcrypt_inline.bench import inguest
from dmcrypt_inline.bench.inguest import (
    MeasuringError,
    check_table,
    crypt_table,
    fio_samples,
    kernel_cpu,
    spent,
)

FIO = json.loads(Path(__file__).with_name("fio.json").read_text())


def test_it_writes_nothing_outside_of_a_guest(tmp_path: Path) -> None:
    order, results = tmp_path / "order.json", tmp_path / "results"
    order.write_text('{"parts": [], "rounds": 1, "modules": {}, "optional": []}')
    done = subprocess.run([sys.executable, "-I", "-S", inguest.__file__, order, results], check=False)
    assert (done.returncode, results.exists()) == (1, False)


def test_the_samples_of_a_document_of_fio() -> None:
    read, mixed = fio_samples(FIO)
    assert (read["load"], read["seconds"], read["bytes"], read["ios"]) == ("read-4k", 0.601, 592252928, 144593)
    assert read["latency_us"] == {"p50": 0.588, "p99": 1.256, "p99.9": 187.392}
    assert read["fio_cpu_s"] == pytest.approx(0.6 * (5.333333 + 16.166667) / 100)
    assert mixed["load"] == "mixed"  # two sections of one name are one group


@pytest.mark.parametrize("change", [{"error": 5}, {"mixed": {**FIO["jobs"][1]["mixed"], "io_bytes": 0}}])
def test_a_job_that_failed_or_moved_nothing_is_no_sample(change: dict[str, Any]) -> None:
    document = {"jobs": [FIO["jobs"][0], {**FIO["jobs"][1], **change}]}
    with pytest.raises(ValueError, match="mixed"):
        list(fio_samples(document))


def test_tables() -> None:
    null = {"cipher": "null", "sector_size": 512}
    assert crypt_table(null, "default", "/dev/ram0", 1000) == "0 1000 crypt capi:ecb(cipher_null) - 0 /dev/ram0 0"
    assert crypt_table(null, "no_read", "/dev/ram0", 1000).endswith("/dev/ram0 0 1 no_read_workqueue")
    aes = crypt_table({"cipher": "aes-xts-plain64", "sector_size": 4096}, "both", "/dev/vda", 131072)
    words = aes.split()
    assert (words[1], words[3], len(words[4]), words[7]) == ("98304", "aes-xts-plain64", 128, "32768")
    assert words[8:] == ["3", "no_read_workqueue", "no_write_workqueue", "sector_size:4096"]


def test_a_mapping_must_have_exactly_the_options_that_were_asked_for() -> None:
    wanted = "0 8 crypt aes-xts-plain64 aa 0 /dev/ram0 0 2 no_read_workqueue no_write_workqueue"
    check_table("0 8 crypt aes-xts-plain64 00 0 1:0 0 2 no_write_workqueue no_read_workqueue\n", wanted)
    for shown in ("0 8 crypt x 00 0 1:0 0", "0 8 crypt x 00 0 1:0 0 1 no_read_workqueue"):
        with pytest.raises(MeasuringError):
            check_table(shown, wanted)
    with pytest.raises(MeasuringError):
        check_table("0 8 crypt x 00 0 1:0 0 1 same_cpu_crypt", "0 8 crypt x 00 0 1:0 0")


def process(place: Path, number: int, name: str, parent: int, nanoseconds: int) -> None:
    """A process in a directory like /proc."""
    (place / str(number)).mkdir(exist_ok=True)
    (place / str(number) / "stat").write_text(f"{number} ({name}) S {parent} 0 0 0 -1\n")
    (place / str(number) / "schedstat").write_text(f"{nanoseconds} 0 1\n")


def test_cpu_time_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  9 9 9 9 9 100 50 0 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n")
    process(tmp_path, 10, "kworker/u4:1-kcryptd/252:0", 2, 10**9)
    process(tmp_path, 11, "ksoftirqd/0", 2, 10**9)
    process(tmp_path, 12, "fio", 1, 10**9)
    before = kernel_cpu(tmp_path)
    assert before == {"interrupts": 1.5, "10": 1.0}
    process(tmp_path, 10, "kworker/u4:1-kcryptd/252:0", 2, 3 * 10**9)
    process(tmp_path, 13, "dmcrypt_write/2", 2, 5 * 10**8)
    (tmp_path / "stat").write_text("cpu  9 9 9 9 9 120 60 0 0 0\n")
    assert spent(before, kernel_cpu(tmp_path)) == pytest.approx({"kernel_threads": 2.5, "interrupts": 0.3})
