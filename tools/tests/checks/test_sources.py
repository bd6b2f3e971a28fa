import sys
from pathlib import Path

import pytest
from small import MISSPELLED, findings_of, git_tree

from dmcrypt_inline.checks import sources

WORKFLOW = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: make check\n"
INDEX = "https://mirror.example:8080/simple"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = git_tree(tmp_path / "repository", None)
    (place / "start.sh").write_text("#!/bin/sh\n")
    (place / "start.py").touch()
    monkeypatch.setattr(sources, "REPO", place)
    monkeypatch.setattr(sources, "WORKFLOWS", [place / "ci.yml"])
    (place / "ci.yml").write_text(WORKFLOW)
    monkeypatch.setenv("PIP_INDEX_URL", INDEX)
    return place


def test_scripts_are_found_by_suffix_or_first_line(repository: Path) -> None:
    for name, text in {"a": "#!/bin/sh", "b": "#!/usr/bin/env bash", "c": "#!/usr/bin/env python3"}.items():
        (repository / name).write_text(f"{text}\n")
    for name in ("d.sh", "ignored.o"):
        (repository / name).touch()
    assert "ignored.o" not in [path.name for path in sources.sources()]
    assert [path.name for path in sources.scripts(".sh", sources.SHELL)] == ["a", "b", "d.sh", "start.sh"]
    assert [path.name for path in sources.scripts(".py", sources.PYTHON)] == ["c", "start.py"]


# Some are in two parts because the checks read this file, too.
@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("shellcheck_is_silent", "a.sh", "#!/bin/sh\ncat $(ls)\n"),
        ("ruff_check_is_silent", "a.py", "import os\n"),
        ("ruff_format_is_silent", "a.py", "a =  1\n"),
        ("codespell_is_silent", "a", f"{MISSPELLED}\n"),
        ("workflows_are_valid", "ci.yml", WORKFLOW.replace("runs-on", "runs-in")),
        ("words_are_plain", "a:2: ", "fine\nmen" + "d it\n"),
        ("words_are_plain", "a:2: ", "fine\nall but" + " for one\n"),
        ("words_are_plain", "a:2: ", "fine\n# all but" + "\n# for one\n"),
        ("words_are_plain", "a:2: ", "fine\n" + '""' + '"What it does."""\n'),
        ("no_name_of_this_machine_is_used", "a:1:", f"pip install --index-url {INDEX}\n"),
        ("no_name_of_this_machine_is_used", "a:1:", "cd REPOSITORY/tools\n"),
    ],
)
def test_a_defect_fails(repository: Path, tmp_path: Path, name: str, path: str, text: str) -> None:
    (repository / "a").write_text("amended, for example, but not for one\n")
    assert not findings_of(name, sources.source_checks(Path(sys.prefix), tmp_path / "log"))
    (repository / path.partition(":")[0]).write_text(text.replace("REPOSITORY", str(repository)))
    assert path in findings_of(name, sources.source_checks(Path(sys.prefix), tmp_path / "log"))
