"""Print facts and verdicts: 80 columns wide for people, as JSON for scripts."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from . import planning
from .judge import Verdict
from .looking import Facts, MappingFacts

WIDTH = 80


def text(facts: Facts, verdicts: Sequence[Verdict]) -> str:
    """The text for the terminal."""
    version = ".".join(map(str, facts.kernel.version))
    source = "" if facts.kernel.release.startswith(version) else f", based on {version}"
    lines = [f"Linux {facts.kernel.release}{source}" + ", built by a distribution" * facts.kernel.distribution]
    if not facts.mappings:
        lines.append("no dm-crypt mapping is open")
    for found, verdict in zip(facts.mappings, verdicts, strict=True):
        lines += ["", *_mapping(found, verdict)]
    if facts.unseen:
        lines += ["", "not checked:", *(wrapped for what in facts.unseen for wrapped in _wrapped("  ", what))]
    return "\n".join(lines) + "\n"


def _mapping(found: MappingFacts, verdict: Verdict) -> list[str]:
    lines = _wrapped("", f"{verdict.name}: {verdict.headline.upper()}", "  ")
    lines += _wrapped(_label("volume"), _volume(found))
    lines += [line for disk in found.disks for line in _wrapped(_label("disk"), disk.description)]
    if found.mapping.active is not None:
        lines += _wrapped(_label("active"), planning.option_list(found.mapping.active))
        lines += _wrapped(_label("stored"), _stored(found))
    calls = [line for line in verdict.do if line.startswith("cryptsetup ")]
    blocks = {"reason": verdict.reasons, "conflict": verdict.conflicts, "sectors": verdict.sectors}
    if calls:
        blocks["do"] = (f"dmcrypt-advise --apply {verdict.name}, which runs:", *calls)
    blocks["by hand"] = tuple(line for line in verdict.do if line not in calls)
    if calls and verdict.undo:
        blocks["undo"] = (f"dmcrypt-advise --undo {verdict.name}, which removes both flags",)
    for label, texts in blocks.items():
        for number, each in enumerate(texts):
            lines += _wrapped(_label(label if number == 0 else ""), each)
    return lines


def _label(text: str) -> str:
    return f"  {text:10}"


def _volume(found: MappingFacts) -> str:
    mapping = found.mapping
    words = [mapping.kind or "dm-crypt"]
    if mapping.segments:
        first = mapping.segments[0]
        words.append(f"{first.cipher} {first.key_bits} bits, sectors of {first.sector_size}")
    if found.driver:
        words.append(f"{found.driver.name} ({found.driver.kind})")
    words.append(f"for {found.used_for}" if found.used_for else "")
    return ", ".join(filter(None, words))


def _stored(found: MappingFacts) -> str:
    stored = found.stored
    places = {
        "header": stored.header,
        stored.file: stored.line.table_options if stored.line else None,
        "initramfs": stored.in_image,
        "kernel command line": stored.command_line,
    }
    texts = [f"{place}: {planning.option_list(options)}" for place, options in places.items() if options is not None]
    return "; ".join(texts) or "not found"


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
    """The same facts and verdicts as JSON."""
    mappings = []
    for found, verdict in zip(facts.mappings, verdicts, strict=True):
        stored = found.stored
        mappings.append(
            {
                "name": verdict.name,
                "type": found.mapping.kind,
                "advice": verdict.advice,
                "flags": sorted(verdict.flags),
                "refused": verdict.refused,
                "doubted": verdict.doubted,
                "in_force": _sorted(found.mapping.active),
                "next_boot": sorted(stored.next_boot),
                "header": _sorted(stored.header),
                "crypttab": _sorted(stored.line.table_options if stored.line else None),
                "initramfs": _sorted(stored.in_image),
                "kernel_command_line": _sorted(stored.command_line),
                "ciphers": [segment.cipher for segment in found.mapping.segments],
                "driver": found.driver.name if found.driver else None,
                "disks": [disk.name for disk in found.disks],
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


def _sorted(options: frozenset[str] | None) -> list[str] | None:
    return None if options is None else sorted(options)
