"""Facts and verdicts for a person, 80 columns wide, and as JSON for scripts."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from . import planning
from .judge import Verdict
from .looking import Facts, Found

WIDTH = 80


def text(facts: Facts, verdicts: Sequence[Verdict]) -> str:
    """The screen."""
    version = ".".join(map(str, facts.kernel.version))
    source = "" if facts.kernel.release.startswith(version) else f", made of {version}"
    lines = [f"Linux {facts.kernel.release}{source}" + " (a distribution's)" * facts.kernel.distribution]
    if not facts.found:
        lines.append("no dm-crypt mapping is open")
    for found, verdict in zip(facts.found, verdicts, strict=True):
        lines += ["", *_mapping(found, verdict)]
    if facts.unseen:
        lines += ["", "not seen:", *(wrapped for what in facts.unseen for wrapped in _wrapped("  ", what))]
    return "\n".join(lines) + "\n"


def _mapping(found: Found, verdict: Verdict) -> list[str]:
    lines = _wrapped("", f"{verdict.name}: {verdict.headline.upper()}", "  ")
    lines += _wrapped("  what    ", _what(found))
    lines += [line for disk in found.stack.disks for line in _wrapped("  disk    ", disk.words)]
    if found.mapping.in_force is not None:
        lines += _wrapped("  now     ", planning.said(found.mapping.in_force))
        lines += _wrapped("  stored  ", _stored(found))
    for mark, texts in (("why", verdict.reasons), ("odd", verdict.conflicts), ("size", verdict.sectors)):
        for number, each in enumerate(texts):
            lines += _wrapped(f"  {mark if number == 0 else '':8}", each)
    if verdict.do:
        do = (f"dmcrypt-advise --apply {verdict.name}, which is:", *verdict.do)
        undo = (f"dmcrypt-advise --undo {verdict.name}, which is:", *verdict.undo)
        for mark, commands in (("do", do), ("undo", undo)):
            for number, command in enumerate(commands):
                lines += _wrapped(f"  {mark if number == 0 else '':8}", command)
    return lines


def _what(found: Found) -> str:
    mapping = found.mapping
    words = [mapping.kind or "dm-crypt"]
    if mapping.segments:
        first = mapping.segments[0]
        words.append(f"{first.cipher} {first.key_bits} bits, sectors of {first.sector_size}")
    if found.driver:
        words.append(f"{found.driver.name} ({found.driver.kind})")
    words.append(f"for {found.used_for}" if found.used_for else "")
    return ", ".join(filter(None, words))


def _stored(found: Found) -> str:
    stored = found.stored
    places = {
        "header": stored.header,
        stored.file: stored.line.words if stored.line else None,
        "initramfs": stored.in_image,
        "kernel command line": stored.command_line,
    }
    said = [f"{place}: {planning.said(words)}" for place, words in places.items() if words is not None]
    return "; ".join(said) or "nowhere"


def _wrapped(first: str, what: str, later: str = "") -> list[str]:
    return textwrap.wrap(
        what,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later or " " * max(len(first), 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_json(facts: Facts, verdicts: Sequence[Verdict]) -> str:
    """The same for scripts; the fields are those of the screen."""
    mappings = []
    for found, verdict in zip(facts.found, verdicts, strict=True):
        stored = found.stored
        mappings.append(
            {
                "name": verdict.name,
                "type": found.mapping.kind,
                "advice": verdict.advice,
                "flags": sorted(verdict.flags),
                "refused": verdict.refused,
                "doubted": verdict.doubted,
                "in_force": _sorted(found.mapping.in_force),
                "next_boot": sorted(stored.next_boot),
                "header": _sorted(stored.header),
                "crypttab": _sorted(stored.line.words if stored.line else None),
                "initramfs": _sorted(stored.in_image),
                "kernel_command_line": _sorted(stored.command_line),
                "ciphers": [segment.cipher for segment in found.mapping.segments],
                "driver": found.driver.name if found.driver else None,
                "disks": [disk.name for disk in found.stack.disks],
                "reasons": verdict.reasons,
                "conflicts": verdict.conflicts,
                "sectors": verdict.sectors,
                "do": verdict.do,
                "undo": verdict.undo,
                "status": verdict.status,
            }
        )
    document = {
        "kernel": {"release": facts.kernel.release, "version": ".".join(map(str, facts.kernel.version))},
        "mappings": mappings,
        "not_seen": facts.unseen,
    }
    return json.dumps(document, indent=2) + "\n"


def _sorted(words: frozenset[str] | None) -> list[str] | None:
    return None if words is None else sorted(words)
