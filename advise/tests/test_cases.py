"""Machines from public reports: what somebody had, and the advice that a maintainer expects.

cases/NAME.txt is the machine. cases/NAME.toml has the source, the expected fields of the JSON document, and patterns
for the screen (without line breaks).
"""

import json
import re
import tomllib
from pathlib import Path

import pytest
from dmcrypt_advise import judge, looking, screen
from machines import load

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("path", sorted(CASES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_advice_for_a_machine_of_a_public_report(path: Path, tmp_path: Path) -> None:
    wanted = tomllib.loads(path.read_text())
    facts = looking.look(load(path.with_suffix(".txt").read_text(), tmp_path))
    verdicts = judge.judge(facts)
    document = json.loads(screen.as_json(facts, verdicts))
    kernel, mappings = document["kernel"], {each["name"]: each for each in document["mappings"]}
    for field, value in wanted.get("kernel", {}).items():
        assert (field, kernel[field]) == (field, value)
    for name, fields in wanted.get("mappings", {}).items():
        for field, value in fields.items():
            assert (name, field, mappings[name][field]) == (name, field, value)
    text = " ".join(screen.text(facts, verdicts).split())
    for pattern in wanted.get("screen", []):
        assert re.search(pattern, text, re.IGNORECASE), pattern
    for pattern in wanted.get("screen_lacks", []):
        assert not re.search(pattern, text, re.IGNORECASE), pattern


def test_the_table_has_a_row_for_each_machine() -> None:
    rows = re.findall(r"^\| ([\w.-]+) \|", (CASES / "README.md").read_text(), re.MULTILINE)
    assert rows[1:] == [path.stem for path in sorted(CASES.glob("*.toml"))]
