import base64
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dmcrypt_inline.bench.inguest import RAW
from dmcrypt_inline.bench.measure import RESULTS, STAGE
from dmcrypt_inline.bench.plans import PLANS
from dmcrypt_inline.commands import cli
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import build_dir
from dmcrypt_inline.guests.runs import new_run
from dmcrypt_inline.report import cells, pages, sectors, workloads
from dmcrypt_inline.report.tables import Table

# Results that nobody measured, the same every time.
LOADS = {
    "w1.fio": ("read-4k", "write-4k", "read-64k", "write-64k", "read-1M", "write-1M"),
    "w3.fio": ("randrw-256k-11-jobs",),
    "w4.fio": ("randread-4k",),
    "w5.fio": ("4-readers-4-writers",),
}
SECONDS = 0.6  # of a sample
BYTES = 4096  # of a request
TAKES = {RAW: 10.0, "default": 200.0, "both": 25.0}  # microseconds of a request by mode; in other modes 40
ENVIRONMENT = {
    "target": "linux-5.8",
    "queue_hash": "0" * 64,
    "kernel_release": "0.0.0-synthetic",
    "kernel_flavour": "fast",
    "accel": "tcg",
    "cpu": "No CPU at all",
    "modules": {"base": "b" * 40, "series": "5" * 40},
    "tools": {"fio": "fio-0.0"},
}


def sample(variant: str, mode: str, number: int, micros: float | None = None, **cell: Any) -> dict[str, Any]:
    """One sample; `micros` is the time of a request (default: the mode's, within 2 %)."""
    took = micros or TAKES.get(mode, 40.0) * (1 + number / 500)
    ios = int(SECONDS * 1e6 / took)
    return {
        **{"workload": "W1", "setting": "brd, null cipher, sectors of 512", "load": "read-4k", "fio": "fio/1.json"},
        **{"variant": variant, "mode": mode, "round": number, "seconds": SECONDS, "bytes": ios * BYTES, "ios": ios},
        **{"latency_us": {"p50": took, "p99": 3 * took, "p99.9": 9 * took}, "cpu_s": {"fio": 0.4, "interrupts": 0.1}},
        **cell,
    }


def of_plan(name: str, *, base_has_flags: bool = False) -> list[dict[str, Any]]:
    plan = PLANS[name]
    return [
        sample(variant, mode, number, workload=part.workload, setting=part.setting, load=load)
        for part in plan.parts
        for number in range(1, plan.rounds + 1)
        for variant, mode in part.runs(("base", "series"), base_has_flags=base_has_flags)
        for load in part.sections or LOADS[part.jobs]
    ]


def results(samples: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        **{"environment": ENVIRONMENT, "kind": "fio", "plan": "synthetic", "started": "2000-01-01T00:00:00+00:00"},
        **{"seconds": 1, "rounds": 5, "skipped": [], "samples": list(samples)},
        **more,
    }


def sector_results(cells: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    made = results((), kind="sectors", baseline="base", measuring=["0001-x.patch"], cells=list(cells), **more)
    del made["samples"], made["skipped"]
    return made


def write(path: Path, content: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


KIND = {"form": "plain", "instructions": "vaes_avx2", "cipher": "aes", "sector": 512, "flags": "inline"}


def of_sectors(variant: str, ns: list[float], **more: Any) -> dict[str, Any]:
    load = {"direction": "read", "size": 65536, "threads": 1, "depth": 1}
    return {**KIND, **load, "variant": variant, "ns_per_512": ns, "elapsed_per_512": ns, **more}


TIMES = {"raw": 20.0, "linear": 30.0, "base": 200.0, "series": 100.0}
SECTORS = sector_results([of_sectors(name, [ns] * 5) for name, ns in TIMES.items()])


def images(page: str) -> list[str]:
    """The charts of a page. Raises ParseError for one that is no XML."""
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    for each in found:
        ElementTree.fromstring(base64.b64decode(each))
    return found


def test_the_page_of_all_workloads_needs_no_other_file() -> None:
    some = [each for each in of_plan("full") if "64k" not in each["load"] and "1M" not in each["load"]]
    page = pages.page(results(some, skipped=["W3: no scheduler bfq"]))
    assert re.findall(r"<h2>(W\d)", page) == ["W1", "W2", "W3", "W4", "W5"]
    assert len(images(page)) == 1 + 2 * 2 + 1 + 3 + 3  # W2 has two metrics, for each of two ciphers
    assert not re.search(r"<(script|link|iframe|object)\b|@import|src=\"(?!data:)|href=\"(?!#)", page)
    for fact in ("0.0.0-synthetic", "No CPU at all", "0" * pages.HASH, "fio-0.0", "no scheduler bfq"):
        assert fact in page


def compared(samples: list[dict[str, Any]]) -> list[Table]:
    [section] = workloads.sections(results(samples))
    return list(section.tables)


def test_ratios_are_those_of_the_baseline_in_the_same_round() -> None:
    samples = [
        sample(*cell, number, micros=number * took, load=load)
        for number in range(1, 6)
        for load in ("read-4k", "write-4k")
        for cell, took in ((("raw", "raw"), 10.0), (("base", "default"), 100.0), (("series", "both"), 50.0))
    ]
    [absolute, table] = compared(samples)
    assert [row[0] for row in absolute.rows] == ["raw", "base:default", "series:both"]
    assert table.columns == ["", "read-4k", "write-4k"]
    assert [row[0] for row in table.rows] == ["raw", "series:both"]
    ratio = re.fullmatch(r"(\S+) \((\S+)-(\S+)\)", table.rows[1][1])
    assert ratio
    assert [float(text) for text in ratio.groups()] == pytest.approx([2.0] * 3, rel=0.01)


def test_a_single_load_has_a_row_for_each_setting() -> None:
    [_, p50, *_] = compared(of_plan("w4"))
    assert p50.columns == ["", "raw", "series:default", "series:no_read"]
    assert len(p50.rows) == len({each["setting"] for each in of_plan("w4")})


def test_a_base_with_the_flags_is_compared_mode_by_mode() -> None:
    found = compared(of_plan("quick", base_has_flags=True))
    modes = ("default", "no_read", "no_write", "both")
    assert [row[0] for row in found[-1].rows] == [f"series:{mode}" for mode in modes]


def test_a_cell_without_a_reference_has_no_ratio() -> None:
    [absolute] = compared([sample("mine", "both", 1)])
    assert absolute.columns == ["", "mine:both"]


def test_a_percentile_needs_requests_beyond_it() -> None:
    few = sample("base", "default", 1)
    assert cells.P999.value({**few, "ios": 9_999}) is None
    assert cells.P999.value({**few, "ios": 10_001}) == few["latency_us"]["p99.9"]
    assert cells.P50.value({**few, "ios": 21}) == few["latency_us"]["p50"]


def test_cpu_time_is_that_of_all_who_took_part() -> None:
    cpu = {"fio": 1.0, "kernel_threads": 2.5, "interrupts": 0.5}
    made = {**sample("base", "default", 1), "bytes": 2 << 30, "cpu_s": cpu}
    assert cells.CPU.value(made) == 2.0
    assert cells.CPU.value({**made, "cpu_s": {}}) is None


def test_the_price_of_a_sector() -> None:
    [section] = sectors.sector_sections(SECTORS)
    times, ratios = section.tables
    assert times.columns == ["", "raw", "linear", "base", "series"]
    assert times.rows == [["64k read", "20.0 (20.0-20.0)", "30.0 (30.0-30.0)", "200 (200-200)", "100 (100-100)"]]
    assert (ratios.columns, ratios.rows) == (["", "series"], [["64k read", "2.00 (2.00-2.00)"]])


def test_two_device_mappers_are_compared() -> None:
    names = {"raw": 20.0, "raw+dm": 20.0, "base": 200.0, "base+dm": 160.0, "series+dm": 100.0}
    made = sector_results([of_sectors(name, [ns] * 6) for name, ns in names.items()])
    [section] = sectors.sector_sections(made)
    _, ratios, cores = section.tables
    assert (ratios.columns, ratios.rows[0][2]) == (["", "base+dm", "series+dm"], "2.00 (2.00-2.00)")
    assert (cores.columns, cores.rows[0][2]) == (["", "raw", "base"], "1.25 (1.25-1.25)")
    assert not section.charts


def test_the_default_path_against_the_flags() -> None:
    made = sector_results(
        [
            of_sectors("series", [1000.0] * 5, flags=flags, depth=depth, elapsed_per_512=[took] * 5)
            for depth in (1, 8)
            for flags, took in (("default", 100.0), ("read", 100.0), ("write", 200.0), ("inline", 200.0))
        ]
    )
    [section] = sectors.sector_sections(made)
    speed, cpu = section.tables
    assert speed.rows[0] == ["64k read, 1 x 1", "100", "1.000 (1.000-1.000) =", *["0.500 (0.500-0.500)"] * 2]
    assert cpu.rows[1] == ["64k read, 1 x 8", "2.10", *["1.000 (1.000-1.000) ="] * 3]


@pytest.mark.parametrize("content", [results(of_plan("quick")), SECTORS])
def test_the_last_results_are_reported(content: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report"]) == 1
    write(new_run(build_dir("linux-5.8"), STAGE) / RESULTS, content)
    new_run(build_dir("linux-5.8"), STAGE)  # of a run that failed
    assert cli.main(["report"]) == 0
    page = build_dir("linux-5.8") / "report" / "report.html"
    said = capsys.readouterr().out
    assert str(page) in said
    assert "series" in said
    assert images(page.read_text())


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content in ({}, {"schema": 2}, results((), kind="else"), results((), environment={})):
        with pytest.raises(UserError):
            cells.read_results(write(tmp_path / "a.json", content))
