"""`make check`, the repository's own files: shell, Python, spelling, workflows, and names that must not be in them."""

import platform
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from ..common.paths import BUILD, REPO, TOOLS
from ..common.run import run
from ..trees.targets import TARGETS
from .checklist import Check, Failed, fail_if

SHELL = re.compile(r"#!\s*\S*(/|env )(ba|da)?sh\b")
PYTHON = re.compile(r"#!.*\bpython3?\b")
WORKFLOWS = sorted((REPO / ".github" / "workflows").glob("*.yml"))
IGNORED_WORDS = TOOLS / "codespell-ignore.txt"
WORDS = TOOLS / "words.txt"  # codespell's format: word->better one
MYPY = ("dmcrypt_inline", "tests", "../advise/dmcrypt_advise", "../advise/tests")
GENERATED = {".git", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def source_checks(env: Path, log: Path) -> list[Check]:
    """The checks of the repository's own files. `env` is the Python environment."""
    tools = env / "bin"
    shell, python = scripts(".sh", SHELL), scripts(".py", PYTHON)
    linters: dict[str, list[str | Path]] = {
        "ruff_check_is_silent": [tools / "ruff", "check", *python],
        "ruff_format_is_silent": [tools / "ruff", "format", "--diff", *python],
        "mypy_strict_is_silent": [tools / "mypy", "--strict", "--no-error-summary", *MYPY],
        "packages_import_in_their_order": [tools / "lint-imports", "--no-cache"],
        "codespell_is_silent": [*codespell(tools), *_prose()],
        "shellcheck_is_silent": ["shellcheck", "-x", *shell],
        "workflows_are_valid": [tools / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS],
    }
    return [
        *(Check(name, partial(succeeds, argv, log), (str(argv[0]),)) for name, argv in linters.items()),
        Check("words_are_plain", lambda: _plain_words(tools, log)),
        Check("no_name_of_this_machine_is_used", lambda: _no_names(log)),
    ]


def sources() -> list[Path]:
    """The project's files: those that git tracks, and new ones that it does not ignore."""
    log = BUILD / "sources.log"
    log.unlink(missing_ok=True)
    listing: list[str | Path] = ["git", "-C", REPO, "ls-files", "-co", "--exclude-standard", "--deduplicate"]
    asked = run(listing, log=log, timeout=60, check=False)
    if asked.returncode == 0:
        found = [REPO / line for line in asked.output.splitlines()]
    else:  # an unpacked archive, not a clone
        found = [path for path in REPO.rglob("*") if not GENERATED.intersection(path.relative_to(REPO).parts)]
    return sorted(path for path in found if path.is_file())


def scripts(suffix: str, first_line: re.Pattern[str]) -> list[Path]:
    """The sources of a language, found by suffix or first line."""
    return [path for path in sources() if path.suffix == suffix or first_line.match(path.read_text(errors="replace"))]


def succeeds(argv: Sequence[str | Path], log: Path, cwd: Path = TOOLS) -> None:
    """Run a linter. Raises Failed with its output unless it exits with 0."""
    done = run(argv, log=log, timeout=600, cwd=cwd, check=False)
    if done.returncode != 0:
        raise Failed(done.transcript.strip() or f"{argv[0]} ended with exit status {done.returncode}")


def codespell(tools: Path) -> list[str | Path]:
    """The codespell command, without files."""
    return [tools / "codespell", "--ignore-words", IGNORED_WORDS]


def _prose() -> list[Path]:
    """The sources without quotes of others. The checks of a queue read its patches."""
    recipes = [target.base_patch for target in TARGETS.values()]
    patches = [path for target in TARGETS.values() for path in target.patches.glob("*.patch")]
    left_out = {*recipes, *patches, REPO / "LICENSE", IGNORED_WORDS, WORDS}
    return [path for path in sources() if path not in left_out]


def _plain_words(tools: Path, log: Path) -> None:
    """Look for the words and phrases of WORDS, which are not plain."""
    prose = [path for path in _prose() if path.suffix != ".patch" and path.name != "cover-letter.txt"]
    asked = run([tools / "codespell", "-D", WORDS, *prose], log=log, timeout=600, cwd=TOOLS, check=False)
    found = asked.output.splitlines()
    # codespell reads word by word, so it does not find the phrases.
    entries = [line.split("->") for line in WORDS.read_text().splitlines() if re.match(r'.*[ "].*->', line)]
    for path in prose:
        text = path.read_text(errors="replace")
        for phrase, better in entries:
            spelled = r"[\s#*]+".join(map(re.escape, phrase.split()))  # also across lines of a comment
            for match in re.finditer(rf"(?<!\w){spelled}(?![\w-])", text, re.I):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: {phrase} ==> {better}")
    fail_if(found)


def _no_names(log: Path) -> None:
    """Look for the hosts in this machine's settings of pip and apt, the distribution's domain, this clone and the home.

    The settings are read because the names must not be written here. Every machine has the home of root.
    """
    from pip._internal.models.index import PyPI  # noqa: PLC0415  (the system's Python may lack pip)

    settings = run([sys.executable, "-m", "pip", "config", "list"], log=log, timeout=60).output
    sites = re.findall(r"index-url='(\S+)'", settings)
    if shutil.which("apt-get"):
        targets = ["apt-get", "indextargets", "--format", "$(SITE)"]
        sites += run(targets, log=log, timeout=60, check=False).output.split()
    hosts = [PyPI.netloc, PyPI.file_storage_domain, *(urlsplit(site).hostname or "" for site in sites)]
    with suppress(OSError):  # there is no os-release
        home = urlsplit(platform.freedesktop_os_release().get("HOME_URL", "")).netloc
        hosts += [".".join(home.split(".")[-2:])]
    names = {*hosts, str(REPO), str(Path.home())} - {"", "/root"}
    words = [word for name in sorted(names) for word in ("-e", name)]
    fail_if(run(["grep", "-HnwF", *words, *sources()], log=log, timeout=60, check=False).transcript.splitlines())
