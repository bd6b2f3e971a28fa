"""Find kernel warnings in a console log."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

EXCERPT_LINES = 30  # a report's headline and the trace that follows it
BEFORE_LINES = 1

IO_ERROR = r"I/O error|EXT4-fs error|JBD2: .*error|Aborting journal|INTEGRITY AEAD ERROR"
# The first kind that matches is the warning's, so special kinds come before general ones.
# The patterns match headlines of lib/, kernel/, mm/ and block/ from v5.8 to v7.3.
_KINDS: tuple[tuple[str, str], ...] = (
    ("KASAN", r"BUG: KASAN"),
    ("UBSAN", r"UBSAN:"),
    ("scheduling while atomic", r"BUG: scheduling while atomic"),
    ("sleeping in atomic context", r"BUG: sleeping function called from invalid context"),
    ("soft lockup", r"BUG: soft lockup"),
    ("workqueue lockup", r"BUG: workqueue lockup"),
    ("hung task", r"INFO: task .* blocked for more than"),
    ("RCU stall", r"rcu.*(?:detected|self-detected) .*stall|rcu.*kthread starved"),
    (
        "lockdep",
        r"possible (?:recursive|circular) locking|possible irq lock inversion|inconsistent lock state"
        r"|suspicious RCU usage|bad unlock balance|lock held when returning|held lock freed"
        r"|trying to register non-static key|Invalid wait context|DEBUG_LOCKS_WARN_ON"
        r"|-safe -> .*-unsafe lock order|MAX_LOCKDEP_\w+ too low",
    ),
    ("debug objects", r"ODEBUG:"),
    ("kernel panic", r"Kernel panic - not syncing"),
    ("oops", r"\bOops\b|general protection fault|unable to handle (?:kernel|page fault)|kernel BUG at|divide error:"),
    ("preempt count", r"huh, entered .* with preempt_count|preempt_count leak"),
    ("kmemleak", r"kmemleak: \d+ new suspected memory leak"),
    ("corrupted list", r"list_(?:add|del) corruption"),
    ("reference count", r"refcount_t: "),
    ("slab", r"BUG [\w-]+ \(|kmem_cache_destroy .*still has objects|Slab cache still has objects"),
    ("page allocation", r"page allocation failure"),
    ("warning", r"WARNING: "),
    ("bug", r"\bBUG: "),
    ("I/O error", IO_ERROR),
)
STALLS = ("soft lockup", "workqueue lockup", "RCU stall")  # a busy host causes these, too
_ANY = re.compile("|".join(pattern for _, pattern in _KINDS))

# "[   12.345678] " or, with CONFIG_PRINTK_CALLER, "[   12.345678][  T123] "
_STAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ")


@dataclass(frozen=True)
class KernelWarning:
    """One warning: its line number (from 1), its kind, its headline without the time, and the lines around it."""

    line: int
    kind: str
    first: str
    excerpt: str


def find_warnings(console: str, expected: Sequence[str] = ()) -> tuple[KernelWarning, ...]:
    """All warnings in a console log, in order, except for lines that one of the patterns `expected` matches."""
    allowed = [re.compile(pattern) for pattern in expected]
    lines = console.replace("\r", "").splitlines()
    found: list[KernelWarning] = []
    for index, line in enumerate(lines):
        text = _STAMP.sub("", line)
        if not _ANY.search(text) or any(pattern.search(text) for pattern in allowed):
            continue
        around = lines[max(0, index - BEFORE_LINES) : index + EXCERPT_LINES]
        kind = next(kind for kind, pattern in _KINDS if re.search(pattern, text))
        found.append(KernelWarning(index + 1, kind, text.strip(), "\n".join(around)))
    return tuple(found)
