"""measurements.py against the schema of its files: what is written must be what the schema says."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dmcrypt_inline.bench.inguest.measurements import MODES, RAW, Load, Measurement, Results, Sample, read, to_json
from dmcrypt_inline.bench.inguest.workloads import PLANS
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import TOOLS
from dmcrypt_inline.guests.environment import Environment, version

SCHEMA: dict[str, Any] = json.loads((TOOLS / "results.schema.json").read_text())
LOAD = Load("W1", "brd", "null", 512, "read", (4096, 4096), 1, 1)
CPU = {"user": 0.1, "system": 0.4, "softirq": 0.0, "irq": 0.0}
CONTEXTS = dict.fromkeys(("jobs", "kcryptd", "write_thread", "cryptd", "other_threads", "softirq", "irq"), 0.0)
LATENCY = {"p50": 3.1, "p99": 9.0, "p99.9": 30.5, "mean": 3.5}
SAMPLE = Sample(1, 0.6, 1 << 20, 256, LATENCY, CPU, CONTEXTS, 512)
ENVIRONMENT = Environment("linux-5.8", "0f", "5.10", "fast", "0e", "tcg", "a CPU", {"base": "00"}, "2.3", "0d", {})
RESULTS = Results(
    environment=asdict(ENVIRONMENT),
    plan="quick",
    started="2026-01-01T00:00:00+00:00",
    seconds=100.0,
    cut_short="",
    measurements=(
        Measurement(LOAD, RAW, RAW, "", (SAMPLE,)),
        Measurement(LOAD, "series", "both", "0 8 crypt capi:ecb(cipher_null) - 0 1:0 0 2 a b", (SAMPLE, SAMPLE)),
    ),
)


def check(results: Results) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(to_json(results)))


def with_measurement(**changes: object) -> Results:
    return replace(RESULTS, measurements=(replace(RESULTS.measurements[1], **changes),))  # type: ignore[arg-type]


def test_the_schema_is_one_and_knows_all_modes() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["measurements"]["items"]["properties"]["mode"]["enum"] == [RAW, *MODES]


def test_what_is_written_is_what_the_schema_says(tmp_path: Path) -> None:
    check(RESULTS)
    path = tmp_path / "results.json"
    path.write_text(to_json(RESULTS))
    assert read(path) == RESULTS


def test_the_schema_takes_every_load() -> None:
    for load in {cell.load for cell in PLANS["full"].cells}:
        check(with_measurement(load=load))


@pytest.mark.parametrize(
    "wrong",
    [
        with_measurement(samples=()),
        with_measurement(samples=(replace(SAMPLE, bytes=0),)),
        with_measurement(samples=(replace(SAMPLE, latency_us={"p50": 1.0}),)),
        with_measurement(samples=(replace(SAMPLE, by_context={**CONTEXTS, "elsewhere": 1.0}),)),
        with_measurement(mode="fast"),
        with_measurement(table=""),
        with_measurement(variant=RAW),
        with_measurement(load=replace(LOAD, sector_size=513)),
        replace(RESULTS, started="yesterday"),
        replace(RESULTS, environment={}),
        replace(RESULTS, measurements=()),
    ],
)
def test_the_schema_refuses(wrong: Results) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check(wrong)


@pytest.mark.parametrize("kept", sorted((TOOLS / "figures").glob("*.json")), ids=lambda path: path.stem)
def test_kept_results_are_what_the_schema_says(kept: Path) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(kept.read_text()))
    for cell in read(kept).measurements:  # the CPU time, divided two ways
        for sample in cell.samples:
            assert sum(sample.cpu_seconds.values()) == pytest.approx(sum(sample.by_context.values()))


def test_files_of_another_schema_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(to_json(RESULTS).replace('"schema": 2', '"schema": 0'))
    with pytest.raises(UserError, match="another schema"):
        read(path)
    path.write_text("[]")
    with pytest.raises(UserError, match="no results file"):
        read(path)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("fio-3.33\n", "fio-3.33"),
        (
            "/dev/mapper/control: open failed: No such device\nLibrary version:   1.02.185 (2022-05-18)\n",
            "Library version:   1.02.185 (2022-05-18)",
        ),
        (
            "Incompatible libdevmapper 1.02.185 (2022-05-18) and kernel driver (unknown version).\n"
            "Library version:   1.02.185 (2022-05-18)\n",
            "Library version:   1.02.185 (2022-05-18)",
        ),
        ("", "unknown"),
    ],
)
def test_a_program_s_version_is_found_among_its_complaints(said: str, found: str) -> None:
    assert version(said) == found
