"""What a patch file says between its message and its diffstat: no commit has it, so it goes from file to file."""

from __future__ import annotations

import re

SEPARATOR = "\n---\n"
DIFFSTAT = re.compile(r"^ \S.* \|\s+(\d+|Bin)\b", re.M)


def history_of(patch: str) -> str:
    """The text below the line --- that is not git's own; empty when there is none."""
    below = patch.partition(SEPARATOR)[2].partition("\ndiff --git ")[0]
    found = DIFFSTAT.search(below)
    own = below[: found.start()] if found else below
    return "\n".join(line for line in own.splitlines() if line != "---").strip("\n")


def with_history(patch: str, history: str) -> str:
    """The patch with `history` below its line ---, above what is there already."""
    if not history or history in history_of(patch):
        return patch
    message, separator, rest = patch.partition(SEPARATOR)
    return f"{message}{separator}{history}\n\n{rest}"
