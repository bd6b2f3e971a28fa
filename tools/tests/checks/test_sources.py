"""checks/sources.py: each check of the sources fails on the defect that it looks for."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from small import MISSPELLED, git_tree

from dmcrypt_inline.checks import sources
from dmcrypt_inline.checks.checklist import Failed, Skipped

TOOLS = Path(sys.executable).parent


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a few files in place of this one."""
    place = git_tree(tmp_path / "repository", None)
    monkeypatch.setattr(sources, "REPO", place)
    return place


def test_scripts_are_found_by_suffix_or_first_line(repository: Path) -> None:
    for name, text in {"a": "#!/bin/sh", "b": "#!/usr/bin/env bash", "c": "#!/usr/bin/env python3"}.items():
        (repository / name).write_text(f"{text}\n")
    for name in ("d.sh", "e.py", "ignored.o"):
        (repository / name).touch()
    names = [path.name for path in sources.sources()]
    assert names == [".gitignore", "Makefile", "a", "b", "c", "d.sh", "dm-crypt.c", "e.py"]
    assert [path.name for path in sources.shell_sources()] == ["a", "b", "d.sh"]
    assert [path.name for path in sources.python_sources()] == ["c", "e.py"]


def test_shell_mistakes_fail(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(Skipped):
        sources._shellcheck(tmp_path / "log")
    (repository / "a.sh").write_text("#!/bin/sh\nrm $1\n")
    with pytest.raises(Failed, match="SC2086"):
        sources._shellcheck(tmp_path / "log")


def check(name: str, log: Path) -> None:
    """Run one of the source checks."""
    [found] = [each for each in sources.source_checks(TOOLS.parent, log) if each.name == name]
    found.call()


def test_spelling_mistakes_fail(repository: Path, tmp_path: Path) -> None:
    check("codespell_is_silent", tmp_path / "log")
    (repository / "a").write_text(f"{MISSPELLED}\n")
    with pytest.raises(Failed, match="receive"):
        check("codespell_is_silent", tmp_path / "log")


# Each is in two parts because the check reads this file, too.
NOT_PLAIN = ("to me" + "nd it", "all but" + " for one", "# all but" + "\n# for one", '""' + '"What it does."""')


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_words_that_are_not_plain_fail(repository: Path, tmp_path: Path, text: str) -> None:
    (repository / "a").write_text("amended, for example, but not for one\n")
    check("words_are_plain", tmp_path / "log")
    (repository / "a").write_text(f"fine\n{text}\n")
    with pytest.raises(Failed, match=r"^\S*a:2: [^\n]* ==> [^\n]*$"):
        check("words_are_plain", tmp_path / "log")


def test_mistakes_in_a_workflow_fail(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(Skipped):
        sources._workflows(TOOLS, tmp_path / "log")
    workflow = repository / ".github" / "workflows" / "ci.yml"
    workflow.parent.mkdir(parents=True)
    good = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: make check\n"
    workflow.write_text(good)
    (repository / "Makefile").write_text(".PHONY: test check\n")
    sources._workflows(TOOLS, tmp_path / "log")
    for wrong in ("make checks", "runs-in"):
        workflow.write_text(good.replace("make check", wrong) if "make" in wrong else good.replace("runs-on", wrong))
        with pytest.raises(Failed, match=wrong.split()[-1]):
            sources._workflows(TOOLS, tmp_path / "log")


def test_the_host_of_a_registry_fails(repository: Path, tmp_path: Path) -> None:
    sources._no_hosts(TOOLS, tmp_path / "log")
    from pip._internal.models.index import PyPI  # noqa: PLC0415  (the name must not be written here)

    (repository / "a").write_text(f"see https://{PyPI.netloc}/simple\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(TOOLS, tmp_path / "log")


def test_the_host_of_this_machine_s_own_index_fails(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "a").write_text("pip install --index-url https://mirror.example:8080/simple\n")
    sources._no_hosts(TOOLS, tmp_path / "log")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example:8080/simple")
    monkeypatch.setattr("shutil.which", lambda _: None)  # a machine without apt
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(TOOLS, tmp_path / "log")


def test_a_host_of_the_distribution_fails(repository: Path, tmp_path: Path) -> None:
    home = platform.freedesktop_os_release()["HOME_URL"].rstrip("/").removeprefix("https://www.")
    (repository / "a").write_text(f"(builders@lists.{home})\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(TOOLS, tmp_path / "log")


def test_a_path_of_this_machine_fails(repository: Path) -> None:
    sources._no_paths()
    (repository / "a").write_text(f"cd {repository}/tools\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_paths()
