"""checks/sources.py: every check of the sources finds what it is there for."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from small import git_tree

from dmcrypt_inline.checks import sources
from dmcrypt_inline.checks.checklist import Failed, Skipped


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a few files in place of ours."""
    place = git_tree(tmp_path / "repository", None)
    monkeypatch.setattr(sources, "REPO", place)
    return place


def test_sources_are_what_is_tracked_or_to_be_and_scripts_are_known_by_suffix_or_first_line(repository: Path) -> None:
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
    if not Path("/usr/bin/shellcheck").exists():
        pytest.skip("shellcheck is not installed")
    with pytest.raises(Failed, match="SC2086"):
        sources._shellcheck(tmp_path / "log")


def test_spelling_mistakes_fail(repository: Path, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    sources._codespell(tools, tmp_path / "log")
    (repository / "a").write_text("rec" + "ieve\n")
    with pytest.raises(Failed, match="receive"):
        sources._codespell(tools, tmp_path / "log")


def test_mistakes_in_a_workflow_fail(repository: Path, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    with pytest.raises(Skipped):
        sources._workflows(tools, tmp_path / "log")
    workflow = repository / ".github" / "workflows" / "ci.yml"
    workflow.parent.mkdir(parents=True)
    good = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: make check\n"
    workflow.write_text(good)
    (repository / "Makefile").write_text(".PHONY: test check\n")
    sources._workflows(tools, tmp_path / "log")
    workflow.write_text(good.replace("make check", "make checks"))
    with pytest.raises(Failed, match="the Makefile has no checks"):
        sources._workflows(tools, tmp_path / "log")
    workflow.write_text(good.replace("runs-on", "runs-in"))
    with pytest.raises(Failed, match="runs-in"):
        sources._workflows(tools, tmp_path / "log")


def test_a_registry_s_host_fails(repository: Path, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    sources._no_hosts(tools, tmp_path / "log")
    from pip._internal.models.index import PyPI  # noqa: PLC0415  (the name must not be written here)

    (repository / "a").write_text(f"see https://{PyPI.netloc}/simple\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(tools, tmp_path / "log")


def test_the_host_of_this_machine_s_own_index_fails(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Path(sys.executable).parent
    (repository / "a").write_text("pip install --index-url https://mirror.example:8080/simple\n")
    sources._no_hosts(tools, tmp_path / "log")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example:8080/simple")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(tools, tmp_path / "log")


def test_a_host_of_the_distribution_fails(repository: Path, tmp_path: Path) -> None:
    home = platform.freedesktop_os_release()["HOME_URL"].rstrip("/").removeprefix("https://www.")
    (repository / "a").write_text(f"(builders@lists.{home})\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_hosts(Path(sys.executable).parent, tmp_path / "log")


def test_a_path_of_this_machine_fails(repository: Path) -> None:
    sources._no_paths()
    (repository / "a").write_text(f"cd {repository}/tools\n")
    with pytest.raises(Failed, match="a:1: "):
        sources._no_paths()
