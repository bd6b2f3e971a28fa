"""checks/sources.py: each check of the sources fails on the defect that it looks for."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI
from small import MISSPELLED, call_check, git_tree

from dmcrypt_inline.checks import sources
from dmcrypt_inline.checks.checklist import Failed

WORKFLOW = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: make check\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a few files in place of this one."""
    place = git_tree(tmp_path / "repository", None)
    (place / "start.sh").write_text("#!/bin/sh\n")
    (place / "start.py").touch()
    monkeypatch.setattr(sources, "REPO", place)
    monkeypatch.setattr(sources, "WORKFLOWS", [place / "ci.yml"])
    (place / "ci.yml").write_text(WORKFLOW)
    return place


def source_check(name: str, place: Path) -> None:
    """Run one of the source checks."""
    call_check(sources.source_checks(Path(sys.prefix), place.parent / "log"), name)


def test_scripts_are_found_by_suffix_or_first_line(repository: Path) -> None:
    for name, text in {"a": "#!/bin/sh", "b": "#!/usr/bin/env bash", "c": "#!/usr/bin/env python3"}.items():
        (repository / name).write_text(f"{text}\n")
    for name in ("d.sh", "ignored.o"):
        (repository / name).touch()
    assert "ignored.o" not in [path.name for path in sources.sources()]
    assert [path.name for path in sources.scripts(".sh", sources.SHELL)] == ["a", "b", "d.sh", "start.sh"]
    assert [path.name for path in sources.scripts(".py", sources.PYTHON)] == ["c", "start.py"]


DEFECTS = {
    "shellcheck_is_silent": ("a.sh", "#!/bin/sh\ncat $(ls)\n"),
    "ruff_check_is_silent": ("a.py", "import os\n"),
    "ruff_format_is_silent": ("a.py", "a =  1\n"),
    "codespell_is_silent": ("a", f"{MISSPELLED}\n"),
    "workflows_are_valid": ("ci.yml", WORKFLOW.replace("runs-on", "runs-in")),
    "no_registry_host_is_named": ("a", f"see https://{PyPI.netloc}/simple\n"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_fails(repository: Path, name: str) -> None:
    source_check(name, repository)
    path, text = DEFECTS[name]
    (repository / path).write_text(text)
    with pytest.raises(Failed, match=re.escape(path)):
        source_check(name, repository)


# Each is in two parts because the check reads this file, too.
NOT_PLAIN = ("men" + "d it", "all but" + " for one", "# all but" + "\n# for one", '""' + '"What it does."""')


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_words_that_are_not_plain_fail(repository: Path, text: str) -> None:
    (repository / "a").write_text("amended, for example, but not for one\n")
    source_check("words_are_plain", repository)
    (repository / "a").write_text(f"fine\n{text}\n")
    with pytest.raises(Failed, match=r"^\S*a:2: [^\n]* ==> [^\n]*$"):
        source_check("words_are_plain", repository)


def test_the_host_of_this_machine_s_own_index_fails(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "a").write_text("pip install --index-url https://mirror.example:8080/simple\n")
    sources._no_hosts(tmp_path / "log")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example:8080/simple")
    monkeypatch.setattr("shutil.which", lambda _: None)  # a machine without apt
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(tmp_path / "log")


def test_a_host_of_the_distribution_fails(repository: Path, tmp_path: Path) -> None:
    home = platform.freedesktop_os_release()["HOME_URL"].rstrip("/").removeprefix("https://www.")
    (repository / "a").write_text(f"(builders@lists.{home})\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(tmp_path / "log")


def test_a_path_of_this_machine_fails(repository: Path) -> None:
    sources._no_paths()
    (repository / "a").write_text(f"cd {repository}/tools\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_paths()
