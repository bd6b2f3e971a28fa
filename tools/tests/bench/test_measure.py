"""sampling.py, accounting.py, mappings.py, devices.py, gather.py: texts in, values out."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dmcrypt_inline.bench.gather import About, finish, gather, kept_on_failure
from dmcrypt_inline.bench.inguest import accounting, mappings, measurements, sampling
from dmcrypt_inline.bench.inguest.devices import Device
from dmcrypt_inline.bench.inguest.measurements import Load
from dmcrypt_inline.bench.inguest.workloads import NULL, Plan
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.run import Completed

REAL = (Path(__file__).with_name("fio.json")).read_text()
LOAD = Load("W1", "brd", NULL, 512, "read", (4096, 4096), 1, 1)
DEVICE = Device("/dev/ram0", 131073)
SAMPLE: dict[str, Any] = {
    **{"round": 1, "seconds": 0.5, "bytes": 1 << 20, "ios": 256, "latency_us": {"p50": 1.0}},
    **{"cpu_seconds": {"user": 0.1}, "by_context": {"jobs": 0.1}, "context_switches": 7},
}


USED = {name: SAMPLE[name] for name in ("cpu_seconds", "by_context", "context_switches")}


def test_a_sample_of_a_real_document() -> None:
    document = sampling.parse(REAL)
    found = sampling.sample(document, 0, 3, USED)
    assert (found.round, found.seconds, found.bytes, found.ios, found.context_switches) == (3, 0.624, 516096, 126, 7)
    assert set(found.latency_us) == {"p50", "p99", "p99.9", "mean"}
    assert found.latency_us["p50"] == pytest.approx(3817.472)
    assert found.latency_us["mean"] == pytest.approx(4919.827)
    assert sampling.sample(document, 1, 3, USED).bytes != found.bytes


@pytest.mark.parametrize(
    ("job", "change", "load", "why"),
    [
        (0, {"error": 5}, 0, "error 5"),  # a failed warm-up counts too
        (1, {"error": 5}, 0, "error 5"),
        (1, {"mixed": {"io_bytes": 0}}, 0, "moved nothing"),
        (0, {}, 2, "0 groups of measured jobs for load 2"),
    ],
)
def test_what_is_no_measurement(job: int, change: dict[str, Any], load: int, why: str) -> None:
    document = sampling.parse(REAL)
    document["jobs"][job] |= change
    with pytest.raises(ValueError, match=why):
        sampling.sample(document, load, 1, USED)
    with pytest.raises(ValueError, match="no JSON"):
        sampling.parse("fio: engine libaio not loadable\n")


def test_job_files() -> None:
    deep = replace(LOAD, engine="libaio", queue_depth=32, rw="randread,randwrite", jobs=8, block_sizes=(4096, 131072))
    text = sampling.job_file([(LOAD, "/dev/a:0"), (deep, "/dev/b")], runtime=0.6, warm_up=0.1, gate="/gate")
    sections = [block.splitlines() for block in text.split("\n\n")]
    names = [lines[0] for lines in sections]
    assert names == ["[global]", "[warm-up-0]", "[cell-0]", *["[warm-up-1]"] * 2, *["[cell-1]"] * 2]
    assert {"ioengine=psync", r"filename=/dev/a\:0"} < set(sections[2])
    assert [line for part in sections[3:] for line in part if "filename" in line] == ["filename=/dev/b"] * 4
    assert {"rw=randread", "numjobs=4", "iodepth=32", "bsrange=4096-131072", "runtime=600ms", "stonewall"} < set(
        sections[5]
    )
    assert "rw=randwrite" in sections[6]
    assert "stonewall" not in sections[6]  # beside the readers
    gates = [sum("=/gate " in line for line in lines) for lines in sections]
    assert gates == [0, 0, 2, 0, 0, 2, 2]
    for wrong, why in (
        (replace(deep, jobs=7), "7 jobs cannot be divided"),
        (replace(LOAD, queue_depth=2), "psync has no queue depth of 2"),
    ):
        with pytest.raises(ValueError, match=why):
            sampling.job_file([(wrong, "/dev/b")], runtime=1, warm_up=1, gate="/gate")


STAT = """\
cpu  2509451 66964 535305 357660 3632 11 1891 3613 0 0
cpu0 1255742 31206 257951 191502 864 0 135 1811 0 0
intr 49280675 0 0
ctxt 197504989
btime 1795254182
"""


def test_the_machine_s_accounts() -> None:
    assert accounting.parse_stat(STAT) == ({"irq": 0.11, "softirq": 18.91}, 197504989)


@pytest.mark.parametrize(
    ("comm", "context"),
    [
        ("kworker/u4:1-kcryptd/252:0", "kcryptd"),
        ("kworker/u4:1+kcryptd_io/252:0", "kcryptd"),
        ("kworker/0:1H-kblockd", "other_threads"),
        ("kworker/0:2-cryptd", "cryptd"),
        ("kworker/0:2", "other_threads"),
        ("dmcrypt_write/2", "write_thread"),
        ("fio", "jobs"),
        ("ksoftirqd/0", ""),
    ],
)
def test_contexts(comm: str, context: str) -> None:
    assert accounting.context_of(comm) == context


def stat(comm: str, user: int, system: int, nice: int = 0) -> str:
    return f"10 ({comm}) S 2 0 0 0 -1 69238880 0 0 0 0 {user} {system} 0 0 20 {nice} 1 0 24 0 0 0"


def test_threads() -> None:
    assert accounting.parse_thread(stat("fio", 100, 50), "2500000000 7 3\n") == accounting.Thread("jobs", 2.5, 1.0)
    for nothing in ("", "0 0 0\n"):  # not counted by this kernel: ticks then
        assert accounting.parse_thread(stat("a) (b", 100, 50), nothing) == accounting.Thread("other_threads", 1.5, 1.0)
    assert accounting.parse_thread(stat("sh", 100, 50, nice=1), "").context == ""


def test_threads_that_come_and_go(tmp_path: Path) -> None:
    task = tmp_path / "10" / "task" / "11"
    task.mkdir(parents=True)
    (task / "stat").write_text(stat("fio", 0, 0))
    (task / "schedstat").write_text("1500000000 1 1\n")
    (tmp_path / "10" / "task" / "12").mkdir()  # ended meanwhile
    assert accounting.threads(tmp_path) == {11: accounting.Thread("jobs", 1.5, 0.0)}


def test_both_ways_of_dividing_the_time_have_the_same_sum() -> None:
    jobs, worker, load = (accounting.Thread(context, 1.0, 0.0) for context in ("jobs", "kcryptd", ""))
    before = accounting.Snapshot({"irq": 1.0, "softirq": 2.0}, 100, {1: jobs, 3: load})
    threads = {1: replace(jobs, seconds=1.5, user=0.2), 2: worker, 3: replace(load, seconds=9.0)}
    used = accounting.usage(before, accounting.Snapshot({"irq": 1.25, "softirq": 2.5}, 111, threads))
    assert used["cpu_seconds"] == pytest.approx({"user": 0.2, "system": 1.3, "irq": 0.25, "softirq": 0.5})
    none = {"write_thread": 0, "cryptd": 0, "other_threads": 0}
    assert used["by_context"] == pytest.approx({"jobs": 0.5, "kcryptd": 1.0, "irq": 0.25, "softirq": 0.5, **none})
    assert used["context_switches"] == 11


def test_tables() -> None:
    plain = "0 131073 crypt capi:ecb(cipher_null) - 0 /dev/ram0 0"
    null = mappings.null(DEVICE, read_only=False)
    assert mappings.table(null, DEVICE, "default", 512) == plain
    assert mappings.table(null, DEVICE, "no_read", 512) == f"{plain} 1 no_read_workqueue"
    assert mappings.null(Device("/dev/sdz", 1 << 30), read_only=True).offset == (16 << 20) >> 9
    small = Device("/dev/sdz", 2005)
    assert mappings.null(small, read_only=True).offset == 1000  # half of it, in whole sectors of 4096
    luks = mappings.parse_crypt(Completed((), 0, "0 98304 crypt aes-xts-plain64 :64:logon:x 0 1:0 32768\n", 0.0))
    assert mappings.table(luks, DEVICE, "both", 4096) == (
        f"0 98304 crypt aes-xts-plain64 {mappings.FAKE_KEY} 0 /dev/ram0 32768 "
        "3 no_read_workqueue no_write_workqueue sector_size:4096"
    )
    for other in ("0 98304 linear 1:0 0\n", "0 98304 crypt aes-cbc-essiv:sha256 :32:logon:x 0 1:0 32768\n"):
        with pytest.raises(UserError, match="no mapping with aes-xts-plain64"):
            mappings.parse_crypt(Completed((), 0, other, 0.0))


SHOWN = "0 131072 crypt capi:ecb(cipher_null) 0 0 1:0 0"


def test_a_table_must_have_exactly_what_is_claimed() -> None:
    mappings.check_flags(SHOWN, "default", 512)
    mappings.check_flags(f"{SHOWN} 2 no_write_workqueue no_read_workqueue", "both", 512)
    mappings.check_flags(f"{SHOWN} 2 sector_size:4096 no_read_workqueue", "no_read", 4096)
    for flags, mode in (
        ("", "no_read"),
        (" 1 no_read_workqueue", "default"),
        (" 1 no_read_workqueue", "both"),
        (" 2 no_read_workqueue allow_discards", "no_read"),
        (" 1 sector_size:4096", "default"),
    ):
        with pytest.raises(UserError, match=f"not in the mode {mode}"):
            mappings.check_flags(SHOWN + flags, mode, 512)


def test_no_key_is_written_down() -> None:
    assert mappings.without_key(SHOWN) == SHOWN.replace(") 0", ") -")
    secret = "0 8 crypt aes-xts-plain64 00112233 0 1:0 0 1 allow_discards"
    assert mappings.without_key(secret) == "0 8 crypt aes-xts-plain64 [4-byte-key] 0 1:0 0 1 allow_discards"


def line(variant: str = "series", table: str = "a table", number: int = 1) -> dict[str, Any]:
    sample = {**SAMPLE, "round": number}
    return {"load": asdict(LOAD), "variant": variant, "mode": "both", "table": table, "sample": sample, "raw": "0.json"}


def test_samples_are_put_together_by_cell() -> None:
    series, base = gather(json.loads(json.dumps([line(), line("base"), line(number=2)])))
    assert (series.variant, [sample.round for sample in series.samples]) == ("series", [1, 2])
    assert (base.load, base.table) == (LOAD, "a table")
    assert series.samples[0].throughput == 2.0
    with pytest.raises(UserError, match="two tables"):
        gather([line(), line(table="another")])


def test_a_run_is_written_and_read_back(tmp_path: Path) -> None:
    found = tmp_path / "found"
    (found / "raw").mkdir(parents=True)
    (found / "raw" / "00000.json").write_text(REAL)
    (found / "samples.jsonl").write_text("".join(json.dumps(line(number=n)) + "\n" for n in (1, 2)))
    about = About({"accel": "tcg"}, Plan("quick", (), 1.0), "2026-01-01T00:00:00+00:00", 0.0)
    with pytest.raises(UserError, match="no results that can be read"):
        finish(tmp_path, found, about)
    (found / "end.json").write_text('{"cut_short": "the time limit"}')
    path = finish(tmp_path, found, about)
    assert path == tmp_path / "quick-20260101-000000.json"
    results = measurements.read(path)
    assert results.cut_short == "the time limit"
    [cell] = results.measurements
    assert [sample.round for sample in cell.samples] == [1, 2]
    assert (tmp_path / "quick-20260101-000000.raw" / "00000.json").read_text() == REAL


def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    found = tmp_path / "found"
    (found / "raw").mkdir(parents=True)
    about = About({"accel": "tcg"}, Plan("full", (), 1.0), "2026-01-01T00:00:00+00:00", 0.0)
    with pytest.raises(UserError, match="guest bench"), kept_on_failure(tmp_path, found, about):
        raise UserError("guest bench: the kernel complained")
    assert list(tmp_path.glob("*.json")) == []  # nothing had been measured
    (found / "samples.jsonl").write_text(json.dumps(line(number=1)) + '\n{"load": ')
    with pytest.raises(UserError, match="guest bench"), kept_on_failure(tmp_path, found, about):
        raise UserError("guest bench: the kernel complained\n  console: there")
    [path] = tmp_path.glob("*.json")
    kept = measurements.read(path)
    assert kept.cut_short == "it failed: guest bench: the kernel complained"
    assert len(kept.measurements) == 1
