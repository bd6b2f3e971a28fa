"""`make check`, the sources' half: shell, Python, spelling, and what must not be written down."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ..common.paths import BUILD, REPO, TOOLS
from ..common.run import run
from ..report import figures
from ..trees.targets import TARGETS
from .checklist import Check, Failed, Skipped, fail_if

SHELL = re.compile(r"#!\s*\S*(/|env )(ba|da)?sh\b")
PYTHON = re.compile(r"#!.*\bpython3?\b")
WORKFLOWS = Path(".github", "workflows")
IGNORED_WORDS = TOOLS / "codespell-ignore.txt"
MYPY = ("dmcrypt_inline", "tests", "../advise/dmcrypt_advise", "../advise/tests")
NO_SOURCE = {".git", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def source_checks(env: Path, log: Path) -> list[Check]:
    """The checks of the repository's own files. `env` is the Python environment."""
    tools = env / "bin"
    mypy: list[str | Path] = [tools / "mypy", "--strict", "--no-error-summary", *MYPY]
    return [
        Check("shellcheck_is_silent", lambda: _shellcheck(log)),
        Check("ruff_check_is_silent", lambda: _silent([tools / "ruff", "check", *python_sources()], log)),
        Check("ruff_format_is_silent", lambda: _silent([tools / "ruff", "format", "--diff", *python_sources()], log)),
        Check("mypy_strict_is_silent", lambda: _silent(mypy, log)),
        Check("rooms_import_in_their_order", lambda: _silent([tools / "lint-imports", "--no-cache"], log)),
        Check("codespell_is_silent", lambda: _codespell(tools, log)),
        Check("workflows_are_valid", lambda: _workflows(tools, log)),
        Check("no_registry_host_is_named", lambda: _no_hosts(tools, log)),
        Check("figures_are_those_of_their_results", lambda: _figures(tools, log)),
        Check("no_path_of_this_machine_is_named", _no_paths),
    ]


def sources() -> list[Path]:
    """Every file that is, or is to be, part of the project: what is tracked, or not ignored and not generated."""
    log = BUILD / "sources.log"
    log.unlink(missing_ok=True)
    listing: list[str | Path] = ["git", "-C", REPO, "ls-files", "-co", "--exclude-standard", "--deduplicate"]
    asked = run(listing, log=log, timeout=60, check=False)
    if asked.returncode == 0:
        found = [REPO / line for line in asked.output.splitlines()]
    else:  # an unpacked archive, not a clone
        found = [p for p in REPO.rglob("*") if not NO_SOURCE.intersection(p.relative_to(REPO).parts)]
    return sorted(path for path in found if path.is_file())


def shell_sources() -> list[Path]:
    """The shell scripts among the sources, by suffix or first line."""
    return _scripts(".sh", SHELL)


def python_sources() -> list[Path]:
    """The Python files among the sources, by suffix or first line."""
    return _scripts(".py", PYTHON)


def _scripts(suffix: str, first_line: re.Pattern[str]) -> list[Path]:
    return [path for path in sources() if path.suffix == suffix or first_line.match(path.read_text(errors="replace"))]


def _silent(argv: Sequence[str | Path], log: Path) -> None:
    """A linter passes when it exits with 0; what it wrote is shown otherwise."""
    done = run(argv, log=log, timeout=600, cwd=TOOLS, check=False)
    if done.returncode != 0:
        raise Failed(done.output.strip() or f"{argv[0]} ended with exit status {done.returncode}")


def _shellcheck(log: Path) -> None:
    scripts = shell_sources()
    if not scripts:
        raise Skipped("there is no shell script")
    _silent(["shellcheck", "-x", *scripts], log)


def _codespell(tools: Path, log: Path) -> None:
    # These quote others; of a queue's patches, what is ours is checked with the queue. The lists are no prose.
    recipes = [path for target in TARGETS.values() for path in (target.recipe.patch, target.recipe.exact)]
    patches = [path for target in TARGETS.values() for path in target.patches.glob("*.patch")]
    left_out = {*recipes, *patches, REPO / "LICENSE", IGNORED_WORDS}
    prose = [path for path in sources() if path not in left_out]
    _silent([tools / "codespell", "--ignore-words", IGNORED_WORDS, *prose], log)


def find_words(words: Sequence[str], files: Sequence[Path], not_after: str) -> list[str]:
    """'file:line: word' for each of `words` in `files`, unless part of a longer word or after one of `not_after`."""
    if not words:
        return []
    pattern = re.compile(rf"(?<![\w{not_after}])(" + "|".join(map(re.escape, words)) + r")(?![\w-])")
    found = []
    for path in files:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{path}:{number}: {match[1]}")
    return found


def _figures(tools: Path, log: Path) -> None:
    """README, cover letters and chart against the results files that are kept with them."""
    if not any(figures.results_of(target).is_file() for target in TARGETS.values()):
        raise Skipped(f"no results are kept in {figures.FIGURES.relative_to(REPO)} yet")
    _silent([tools / "python", TOOLS / "dmcrypt-inline", "figures", "--check"], log)


def _workflows(tools: Path, log: Path) -> None:
    """Against the published schema of workflow files, and each command "make STAGE" against the Makefile."""
    workflows = [path for path in sources() if path.relative_to(REPO).is_relative_to(WORKFLOWS)]
    if not workflows:
        raise Skipped(f"there is nothing in {WORKFLOWS}")
    _silent([tools / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows], log)
    stages = " ".join(re.findall(r"^\.PHONY: (.*)", (REPO / "Makefile").read_text(), re.MULTILINE)).split()
    named = [(path, stage) for path in workflows for stage in re.findall(r"run: make ([\w-]+)", path.read_text())]
    fail_if([f"{path}: the Makefile has no {stage}" for path, stage in named if stage not in stages])


def _no_hosts(tools: Path, log: Path) -> None:
    """The hosts are those that this machine's apt and pip know: written here, they would be found by this check.

    Of the distribution itself, which apt may have from a mirror, the whole domain.
    """
    sites = run(["apt-get", "indextargets", "--format", "$(SITE)"], log=log, timeout=60, check=False).output.split()
    ask = "from pip._internal.models.index import PyPI as p; print(p.netloc, p.file_storage_domain)"
    known = run([tools / "python", "-c", ask], log=log, timeout=60).output.split()
    settings = run([tools / "python", "-m", "pip", "config", "list"], log=log, timeout=60).output
    sites += re.findall(r"index-url='(\S+)'", settings)
    home = urlsplit(platform.freedesktop_os_release().get("HOME_URL", "")).netloc
    hosts = {urlsplit(site).hostname for site in sites} | set(known) | {".".join(home.split(".")[-2:])}
    fail_if(find_words(sorted(filter(None, hosts)), sources(), not_after=""))


def _no_paths() -> None:
    """Where this clone lies and the user's home: right here, wrong everywhere else."""
    fail_if(find_words(sorted({str(REPO), str(Path.home())}), sources(), not_after="./-"))
