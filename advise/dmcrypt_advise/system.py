"""The machine: files and the output of programs."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 30.0  # limit for a program: one that waits for a hung disk must not stop this program


def program_environment() -> dict[str, str]:
    """The environment for programs: this program's own, with the sbin directories, which a user's PATH may lack."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


@dataclass
class System:
    """A machine: the files below `root`, and its programs or, for tests, their `recorded` output by command line.

    `unseen` collects a line for each thing that could not be read, with the reason.
    """

    root: Path = Path("/")
    recorded: Mapping[str, str] | None = None
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    unseen: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """The path of the file with this absolute name."""
        return self.root / name.lstrip("/")

    def read(self, name: str, *, wanted: str = "") -> str | None:
        """The text of a file, or None. A file that exists and cannot be read is recorded as unseen, under `wanted`."""
        try:
            return self.path(name).read_text(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            if wanted:
                self.miss(f"{wanted}: {name}: {error.strerror}")
            return None

    def word(self, name: str) -> str:
        """The text of a file of one line, "" if there is none."""
        return (self.read(name) or "").strip()

    def names(self, name: str) -> list[str]:
        """The sorted names in a directory; none if it does not exist."""
        try:
            return sorted(path.name for path in self.path(name).iterdir())
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        """True if there is a file or a directory with this name, in a directory that this user may search."""
        try:
            self.path(name).stat()
        except OSError:
            return False
        return True

    def ask(self, argv: Sequence[str], wanted: str) -> str | None:
        """The output of a program. If it fails: None, and `wanted`, if any, is recorded as unseen, with the reason."""
        line = " ".join(argv)
        if self.recorded is not None:
            if line not in self.recorded and wanted:
                self.miss(f"{wanted}: no output of {argv[0]}{self._as_user()}")
            return self.recorded.get(line)
        try:
            asked = subprocess.run(
                argv,
                env={**program_environment(), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.miss(f"{wanted}: {error}")
            return None
        if asked.returncode != 0:
            why = (asked.stderr.strip().splitlines() or [f"exit status {asked.returncode}"])[0]
            self.miss(f"{wanted}: {argv[0]}: {why}{self._as_user()}")
            return None
        return asked.stdout

    def miss(self, what: str) -> None:
        """Record once what could not be read, except if nothing was wanted."""
        if what not in self.unseen and not what.startswith(":"):
            self.unseen.append(what)

    def _as_user(self) -> str:
        return "" if self.is_root else " (needs root)"
