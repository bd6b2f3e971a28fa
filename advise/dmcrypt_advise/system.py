"""The machine as files and programs that only tell; a recorded one for tests. What it does not tell is kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 30.0  # a program that only looks needs far less; one that waits for a hung disk must not hang us


def environment() -> dict[str, str]:
    """Our own, with the directories in PATH that a user may lack."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


@dataclass
class System:
    """Files below `root`, programs of this machine, or in place of them `recorded`: what each command line printed.

    `unseen` gets a line for what could not be looked at, and why.
    """

    root: Path = Path("/")
    recorded: Mapping[str, str] | None = None
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    unseen: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """Where the file with this absolute name lies."""
        return self.root / name.lstrip("/")

    def read(self, name: str, *, wanted: str = "") -> str | None:
        """The text of a file, None where there is none. One that is there and cannot be read is noted as `wanted`."""
        try:
            return self.path(name).read_text(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            if wanted:
                self.miss(f"{wanted}: {name}: {error.strerror}")
            return None

    def word(self, name: str) -> str:
        """The text of a file of one line, "" where there is none."""
        return (self.read(name) or "").strip()

    def names(self, name: str) -> list[str]:
        """What is in a directory, in order; nothing where there is none."""
        try:
            return sorted(path.name for path in self.path(name).iterdir())
        except OSError:
            return []

    def ask(self, argv: Sequence[str], wanted: str) -> str | None:
        """What a program prints, None where it fails; then `wanted`, with the reason, is noted as unseen."""
        line = " ".join(argv)
        if self.recorded is not None:
            if line not in self.recorded:
                self.miss(f"{wanted}: {argv[0]} says nothing{self._as_user()}")
            return self.recorded.get(line)
        try:
            asked = subprocess.run(
                argv,
                env={**environment(), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except FileNotFoundError:
            self.miss(f"{wanted}: there is no {argv[0]}")
            return None
        except (OSError, subprocess.TimeoutExpired) as error:
            self.miss(f"{wanted}: {error}")
            return None
        if asked.returncode != 0:
            why = (asked.stderr.strip().splitlines() or [f"exit status {asked.returncode}"])[0]
            self.miss(f"{wanted}: {argv[0]}: {why}{self._as_user()}")
            return None
        return asked.stdout

    def miss(self, what: str) -> None:
        """Note what could not be seen, once."""
        if what not in self.unseen:
            self.unseen.append(what)

    def _as_user(self) -> str:
        return "" if self.is_root else " (needs root)"
