"""measurements.py: results files, and those that are kept with the project."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic

from dmcrypt_inline.bench.inguest.measurements import read, to_json
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.common.paths import TOOLS
from dmcrypt_inline.guests.environment import version


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    results = synthetic.results([*synthetic.of_plan("w4"), *synthetic.of_plan("w5")])
    path = tmp_path / "results.json"
    path.write_text(to_json(results))
    assert read(path) == results


@pytest.mark.parametrize("kept", sorted((TOOLS / "figures").glob("*.json")), ids=lambda path: path.stem)
def test_kept_results_divide_the_cpu_time_two_ways(kept: Path) -> None:
    assert to_json(read(kept)) == kept.read_text()
    for cell in read(kept).measurements:
        for sample in cell.samples:
            assert sum(sample.cpu_seconds.values()) == pytest.approx(sum(sample.by_context.values()))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (to_json(synthetic.results(())).replace('"schema": 2', '"schema": 0'), "another schema"),
        (to_json(synthetic.results(())).replace('"plan"', '"plans"'), "no results file"),
        ("[]", "no results file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(UserError, match=why):
        read(path)


@pytest.mark.parametrize(
    "said",
    [
        "/dev/mapper/control: open failed: No such device\nLibrary version:   1.02.185 (2022-05-18)\n",
        "Incompatible libdevmapper 1.02.185 (2022-05-18) and kernel driver (unknown version).\n"
        "Library version:   1.02.185 (2022-05-18)\n",
    ],
)
def test_a_program_s_version_is_found_among_its_complaints(said: str) -> None:
    assert version(said) == "Library version:   1.02.185 (2022-05-18)"
    assert version("") == "unknown"
